/* incompressible MIB [each|text|locked|waits]: fills MIB MiB with noise, reads it back twice, says ok. each: every MiB
 * is a mapping of its own, made when its turn comes. text: then as much that compresses, before all is read.
 * locked: all is locked first. waits: then it waits for a signal that ends it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t noise(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t *map(size_t mib)
{
	void *p = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(2);
	return p;
}

int main(int argc, char **argv)
{
	enum { WORDS = 1 << 17 }; /* of a MiB */
	size_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 64;
	int each = argc > 2 && !strcmp(argv[2], "each"), text = argc > 2 && !strcmp(argv[2], "text");
	uint64_t **p = calloc(mib, sizeof *p), *all = each || !mib ? NULL : map(mib);

	if (!mib || !p || (argc > 2 && !strcmp(argv[2], "locked") && mlock(all, mib << 20)))
		return 2;
	for (size_t m = 0; m < mib; m++) {
		p[m] = each ? map(1) : all + m * WORDS;
		for (size_t i = 0; i < WORDS; i++)
			p[m][i] = noise(m * WORDS + i);
	}
	if (text)
		for (size_t m = 0; m < mib; m++)
			memset(map(1), 'a' + m % 26, 1 << 20);
	for (int round = 0; round < 2; round++)
		for (size_t m = 0; m < mib; m++)
			for (size_t i = 0; i < WORDS; i++)
				if (p[m][i] != noise(m * WORDS + i)) {
					fprintf(stderr, "incompressible: FAIL word %zu of MiB %zu is %#llx\n", i, m,
						(unsigned long long)p[m][i]);
					return 1;
				}
	if (argc > 2 && !strcmp(argv[2], "waits"))
		pause();
	printf("incompressible: ok mib=%zu\n", mib);
	return 0;
}
