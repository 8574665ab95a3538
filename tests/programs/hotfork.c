/*
 * hotfork MIB SECONDS: MIB MiB, of which some pages are counted up all the time, also right after each of many forks while
 * the pages are still shared. Every count is checked; prints how many were wrong.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS 512
#define HOT 256
#define ROUNDS 4

int main(int argc, char **argv)
{
	uint64_t pages = (argc > 1 ? strtoull(argv[1], NULL, 10) : 48) * 256;
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 10);
	uint64_t *p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t wrong = 0, forks = 0, counts[HOT] = { 0 };
	if (p == MAP_FAILED)
		return 2;
	for (uint64_t n = 0; n < pages; n++)
		for (uint64_t i = 1; i < WORDS; i++)
			p[n * WORDS + i] = n * i;
	uint64_t cold = 0;
	while (time(NULL) < end) {
		pid_t child = fork();
		if (child < 0)
			return 3;
		if (child == 0)
			_exit(0);
		forks++;
		for (int round = 0; round < ROUNDS; round++) {
			for (uint64_t h = 0; h < HOT; h++) {
				uint64_t *word = &p[h * (pages / HOT) * WORDS];
				wrong += *word != counts[h];
				*word = ++counts[h];
			}
			/* something else must leave for these */
			for (int k = 0; k < 2; k++, cold = (cold + 7919) % pages)
				wrong += p[cold * WORDS + 1] != cold;
		}
		waitpid(child, NULL, 0);
	}
	fprintf(stderr, "%llu forks\n", (unsigned long long)forks);
	printf("%llu wrong\n", (unsigned long long)wrong);
	return wrong != 0;
}
