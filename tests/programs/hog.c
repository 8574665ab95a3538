/*
 * hog MIB [ROUNDS [NOISE]]: fills MIB MiB with compressible data, reads it all back
 * ROUNDS times (1 unless given), each time in another order, and prints a digest.
 * Of each eight words NOISE (0 unless given) do not compress.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096
#define WORDS (PAGE / 8)

static uint64_t noise;

/* Half of the words repeat, half are numbers near each other: lz4 finds about 3 to 1. */
static uint64_t word(uint64_t page, uint64_t i)
{
	if (i % 8 < noise) { /* splitmix64 */
		uint64_t z = (page * WORDS + i + 1) * 0x9e3779b97f4a7c15ull;
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
		return z ^ (z >> 31);
	}
	return i & 1 ? 0x2020202064726f77ull : (page * 2654435761u) ^ (i >> 3);
}

int main(int argc, char **argv)
{
	uint64_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 64, rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	uint64_t pages = mib * 256, digest = 0;
	noise = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	uint64_t *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!pages || p == MAP_FAILED) {
		fprintf(stderr, "hog: cannot map %llu MiB\n", (unsigned long long)mib);
		return 2;
	}
	for (uint64_t n = 0; n < pages; n++)
		for (uint64_t i = 0; i < WORDS; i++)
			p[n * WORDS + i] = word(n, i);
	for (uint64_t r = 0; r < rounds; r++) {
		/* 1 walks forward, the others jump by an odd stride */
		uint64_t stride = r == 0 ? 1 : 7919 * r | 1;
		for (uint64_t k = 0; k < pages; k++) {
			uint64_t n = r == 0 ? k : (k * stride) % pages;
			for (uint64_t i = 0; i < WORDS; i++) {
				uint64_t w = p[n * WORDS + i];
				if (w != word(n, i)) {
					fprintf(stderr, "hog: FAIL round %llu page %llu word %llu: %#llx, must be %#llx\n",
						(unsigned long long)r, (unsigned long long)n, (unsigned long long)i, (unsigned long long)w,
						(unsigned long long)word(n, i));
					return 1;
				}
				digest = (digest ^ w) * 0x100000001b3ull;
			}
		}
	}
	printf("hog: ok mib=%llu rounds=%llu digest=%016llx\n", (unsigned long long)mib, (unsigned long long)rounds,
		(unsigned long long)digest);
	return 0;
}
