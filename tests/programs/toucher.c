/*
 * toucher MIB RATE FILE: fills MIB MiB, makes FILE.ready, and then touches RATE pages a second at random, until FILE is there. With
 * a rate of 0 it looks for FILE five times a second, and does nothing else.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	uint64_t pages = strtoull(argv[1], NULL, 10) * 256, rate = strtoull(argv[2], NULL, 10);
	uint64_t seed = (uint64_t)getpid() * 0x9e3779b97f4a7c15ull, sum = 0;
	volatile uint64_t *p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!pages || p == MAP_FAILED)
		return 2;
	for (uint64_t i = 0; i < pages * 512; i++)
		p[i] = i % 512 < 64 ? i * 2654435761u : i / 512;
	char ready[4096];
	snprintf(ready, sizeof ready, "%s.ready", argv[3]);
	FILE *f = fopen(ready, "w");
	if (!f || fclose(f))
		return 2;
	struct timespec step = {0, rate ? 10000000 : 200000000};
	for (int tries = 0; access(argv[3], F_OK); tries++) {
		if (tries > 60000)
			return 3;
		for (uint64_t n = 0; n < rate / 100; n++) {
			seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
			sum += p[seed % pages * 512];
		}
		nanosleep(&step, NULL);
	}
	return sum == 1;
}
