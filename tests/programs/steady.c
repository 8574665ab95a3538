/*
 * steady MIB SECONDS-WORTH: memory-heavy work that stays as it is. Prints nothing
 * but a digest; who wants to know how long it takes measures from outside.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	return x ^ (x >> 27);
}

int main(int argc, char **argv)
{
	uint64_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 256, rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 4;
	uint64_t words = mib << 17, digest = 1, *p = malloc(mib << 20);
	if (!p || !words)
		return 2;
	for (uint64_t i = 0; i < words; i++)
		p[i] = i;
	for (uint64_t r = 0; r < rounds; r++) {
		/* random reads and writes, and allocations that come and go */
		for (uint64_t i = 0, at = r; i < words / 8; i++) {
			at = mix(at + i) % words;
			p[at] += digest;
			digest ^= p[(at + 512) % words];
		}
		for (int i = 0; i < 2000; i++) {
			char *b = malloc(4096 * (1 + i % 64));
			memset(b, i, 4096);
			digest += (uint64_t)b[77];
			free(b);
		}
	}
	printf("steady: %016llx\n", (unsigned long long)digest);
	return 0;
}
