/* Memory that is moved to a fixed place while neighbours that nobody was told of come and go: what is registered of
 * them may be a part of it by then, and splits it for a moment. */
#include "survive.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOVES 40000
#define PIECE 16

static atomic_int stop;

/* By system calls alone, which wait for nobody's turn. */
static void *comes_and_goes(void *arg)
{
	uint64_t x = (uintptr_t)arg;
	while (!stop) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		size_t bytes = (1 + x % (2 * PIECE)) * PAGE;
		char *at = (char *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at != MAP_FAILED)
			syscall(SYS_munmap, at, bytes);
	}
	return NULL;
}

static size_t move(void)
{
	char *from = fresh(PIECE * PAGE), *to = fresh(PIECE * PAGE);
	fill(from, PIECE);
	size_t bad = 0;
	char *moved = mremap(from, PIECE * PAGE, PIECE * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (moved != to) {
		perror("mremap");
		bad++;
		munmap(from, PIECE * PAGE);
	} else {
		bad += wrong(moved, PIECE);
	}
	munmap(to, PIECE * PAGE);
	return bad;
}

int cut(size_t pages)
{
	char *memory = fresh(pages * PAGE);
	fill(memory, pages);
	pthread_t threads[2];
	for (uintptr_t i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, comes_and_goes, (void *)(i + 88172645)))
			return 2;
	size_t bad = 0;
	for (int i = 0; i < MOVES; i++)
		bad += move();
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return verdict(bad + wrong(memory, pages), pages);
}
