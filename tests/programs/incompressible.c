/* incompressible MIB: fills MIB MiB with noise, reads it back twice, says ok. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static uint64_t noise(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 64, words = mib << 17;
	uint64_t *p = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!mib || p == MAP_FAILED)
		return 2;
	for (size_t i = 0; i < words; i++)
		p[i] = noise(i);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < words; i++)
			if (p[i] != noise(i)) {
				fprintf(stderr, "incompressible: FAIL word %zu is %#llx\n", i, (unsigned long long)p[i]);
				return 1;
			}
	printf("incompressible: ok mib=%zu\n", mib);
	return 0;
}
