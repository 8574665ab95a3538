#include "survive.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 300
#define BLOCK 64ul

static char *blocks[BLOCKS], *places[BLOCKS];
static pthread_barrier_t together;

static void spin(long nanoseconds)
{
	struct timespec start, now;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < nanoseconds);
}

static void *advise(void *unused)
{
	for (int i = 0; i < BLOCKS; i++) {
		pthread_barrier_wait(&together);
		spin(i % 20 * 10000L);
		madvise(places[i], BLOCK * PAGE, MADV_WIPEONFORK);
		pthread_barrier_wait(&together);
	}
	return unused;
}

/* Blocks that are out move to places that another thread wants wiped in forked children, at that moment. */
int advised(size_t pages)
{
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = fresh((BLOCK + 1) * PAGE);
		places[i] = mmap(NULL, (BLOCK + 1) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (places[i] == MAP_FAILED || mprotect(blocks[i] + BLOCK * PAGE, PAGE, PROT_NONE))
			return 77;
		fill(blocks[i], BLOCK);
	}
	char *memory = fresh(pages * PAGE);
	fill(memory, pages);
	usleep(300000);
	pthread_t adviser;
	pthread_barrier_init(&together, NULL, 2);
	if (pthread_create(&adviser, NULL, advise, NULL))
		return 77;
	size_t bad = 0;
	for (int i = 0; i < BLOCKS; i++) {
		pthread_barrier_wait(&together);
		int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
		if (mremap(blocks[i], BLOCK * PAGE, BLOCK * PAGE, flags, places[i]) != places[i])
			bad += BLOCK;
		pthread_barrier_wait(&together);
	}
	pthread_join(adviser, NULL);
	for (int i = 0; i < BLOCKS; i++)
		bad += wrong(places[i], BLOCK);
	return verdict(bad + wrong(memory, pages), pages + BLOCKS * BLOCK);
}
