#include "survive.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HALF 512ul

/* Pages that are not zero. */
static size_t used(const char *memory, size_t pages)
{
	size_t count = 0;
	for (size_t at = 0; at < pages * PAGE; at += sizeof(uint64_t))
		if (*(const volatile uint64_t *)(memory + at)) {
			count++;
			at |= PAGE - sizeof(uint64_t);
		}
	return count;
}

/* A mapping moves to the place and grows there. */
static size_t moves_there(char *own, char *place)
{
	char *moved = mremap(own, 16 * PAGE, HALF * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	return moved != place ? HALF : wrong(moved, 16) + used(moved + 16 * PAGE, HALF - 16);
}

/* The mapping before it grows over the place. */
static size_t grows_there(char *own, char *place)
{
	char *before = place - HALF * PAGE;
	char *grown = mremap(before, HALF * PAGE, 2 * HALF * PAGE, 0);
	return grown != before ? HALF : wrong(own, HALF) + wrong(before, HALF) + used(place, HALF);
}

/* New memory there, which a child of this one is to find empty. */
static size_t is_new_there(char *own, char *place)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	if (mmap(place, HALF * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) != place)
		return HALF;
	if (madvise(place, HALF * PAGE, MADV_WIPEONFORK))
		return HALF;
	return wrong(own, HALF) + used(place, HALF);
}

/* Children make something of a place where their parent has memory that is out, and that they do not get. */
int kept(size_t pages)
{
	size_t (*const ways[])(char *, char *) = { moves_there, grows_there, is_new_there };
	char *own = fresh(HALF * PAGE), *both = fresh(2 * HALF * PAGE), *memory = fresh(pages * PAGE);
	char *place = both + HALF * PAGE;
	fill(own, HALF);
	fill(both, 2 * HALF);
	if (madvise(place, HALF * PAGE, MADV_DONTFORK))
		return 77;
	fill(memory, pages);
	usleep(300000);
	size_t bad = 0;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(ways[i](own, place) != 0);
		int status;
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			bad += HALF;
	}
	return verdict(bad + wrong(both, 2 * HALF) + wrong(memory, pages), pages);
}
