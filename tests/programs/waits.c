/*
 * waits MIB FILE: fills MIB MiB, makes FILE.ready, waits until FILE is there, and looks whether every word is as it was.
 * With a third word it touches all of its memory again and again meanwhile.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS 512

static uint64_t word(uint64_t page, uint64_t i)
{
	return i & 1 ? 0x2020202064726f77ull : (page * 2654435761u) ^ (i >> 3);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	uint64_t pages = strtoull(argv[1], NULL, 10) * 256, sum = 0;
	uint64_t *p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!pages || p == MAP_FAILED)
		return 2;
	for (uint64_t n = 0; n < pages; n++)
		for (uint64_t i = 0; i < WORDS; i++)
			p[n * WORDS + i] = word(n, i);
	char ready[4096];
	snprintf(ready, sizeof ready, "%s.ready", argv[2]);
	FILE *f = fopen(ready, "w");
	if (!f || fclose(f))
		return 2;
	for (int tries = 0; access(argv[2], F_OK); tries++) {
		if (tries > 12000)
			return 3;
		if (argc > 3)
			for (uint64_t n = 0; n < pages; n++)
				sum += p[n * WORDS];
		usleep(10000);
	}
	for (uint64_t n = 0; n < pages; n++)
		for (uint64_t i = 0; i < WORDS; i++)
			if (p[n * WORDS + i] != word(n, i)) {
				fprintf(stderr, "waits: FAIL page %llu word %llu\n", (unsigned long long)n, (unsigned long long)i);
				return 1;
			}
	printf("whole%s\n", sum == 1 ? "." : "");
	return 0;
}
