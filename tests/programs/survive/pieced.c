/* Memory of which parts are mapped anew, and which is then moved as a whole: to the kernel it is one mapping. */
#include "survive.h"

#include <stdio.h>
#include <sys/mman.h>

#define AREAS 64
#define PIECE 48
#define MORE 16

static void *moved(char *from, size_t pages, int turn)
{
	size_t bytes = pages * PAGE;
	char *to = MAP_FAILED;
	if (turn == 0) {
		to = mremap(from, bytes, bytes + MORE * PAGE, MREMAP_MAYMOVE);
		return to == MAP_FAILED ? to : mremap(to, bytes + MORE * PAGE, bytes, 0);
	}
	char *place = mmap(NULL, bytes + MORE * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (place == MAP_FAILED)
		return place;
	if (turn == 1) {
		to = mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
		munmap(place + bytes, MORE * PAGE);
	} else if (turn == 2) {
		to = mremap(from, bytes, bytes + MORE * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
		if (to != MAP_FAILED)
			munmap(place + bytes, MORE * PAGE);
	} else {
		to = mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, place);
		munmap(place + bytes, MORE * PAGE);
		/* What stayed is mapped, and empty. */
		if (to != MAP_FAILED && (from[0] || from[bytes - PAGE] || munmap(from, bytes)))
			return MAP_FAILED;
	}
	return to;
}

int pieced(size_t pages)
{
	char *areas[AREAS];
	size_t most = pages / AREAS, bad = 0;
	uint64_t x = 362436069;
	for (int area = 0; area < AREAS; area++) {
		areas[area] = fresh(most * PAGE);
		fill(areas[area], most);
	}
	for (int area = 0; area < AREAS; area++) {
		char *memory = areas[area];
		/* One time in two, three parts. */
		for (int part = 0; part < 1 + 2 * (area & 1); part++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			size_t first = x % (most - PIECE);
			char *at = memory + first * PAGE;
			if (mmap(at, PIECE * PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
				return 2;
			for (size_t page = first; page < first + PIECE; page++)
				*(uint64_t *)(memory + page * PAGE) = page + 1;
		}
		areas[area] = moved(memory, most, area / 2 % 4);
		if (areas[area] == MAP_FAILED) {
			fprintf(stderr, "area %d: ", area);
			perror("mremap");
			return 3;
		}
	}
	for (int area = 0; area < AREAS; area++)
		bad += wrong(areas[area], most);
	return verdict(bad, most * AREAS);
}
