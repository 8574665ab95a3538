/*
 * patched MIB: fills MIB MiB that the kernel keeps as mappings of 64 KiB beside each other, all of one kind, and reads it
 * back. Each half of a mapping has had its own reverse map before it got a neighbour, so that they do not become one.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096
#define PATCH (8 * PAGE)

static void fill(char *patch, uint64_t number)
{
	for (uint64_t *word = (uint64_t *)patch; word < (uint64_t *)(patch + PATCH); word++)
		*word = number * 2654435761u + ((uint64_t)word & 0xfff);
}

static int is_whole(char *patch, uint64_t number)
{
	for (uint64_t *word = (uint64_t *)patch; word < (uint64_t *)(patch + PATCH); word++)
		if (*word != number * 2654435761u + ((uint64_t)word & 0xfff))
			return 0;
	return 1;
}

static void map(char *at)
{
	if (mmap(at, PATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
		exit(2);
}

int main(int argc, char **argv)
{
	uint64_t patches = (argc > 1 ? strtoull(argv[1], NULL, 10) : 64) * ((1 << 20) / PATCH);
	char *base = mmap(NULL, patches * PATCH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return 2;
	for (uint64_t n = 0; n < patches; n += 2) {
		map(base + n * PATCH);
		fill(base + n * PATCH, n);
	}
	for (uint64_t n = 1; n < patches; n += 2) {
		map(base + n * PATCH);
		fill(base + n * PATCH, n);
	}
	for (uint64_t round = 0; round < 3; round++)
		for (uint64_t n = 0; n < patches; n++)
			if (!is_whole(base + n * PATCH, n))
				return 1;
	printf("%llu whole\n", (unsigned long long)patches);
	return 0;
}
