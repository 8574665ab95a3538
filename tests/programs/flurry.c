/*
 * flurry MIB SECONDS: a process with MIB MiB forks as fast as it can. Each child looks at one page, and writes and looks at another; every second one ends
 * before its parent waits. Prints how many found something wrong, or did not end well.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS 512

int main(int argc, char **argv)
{
	uint64_t pages = (argc > 1 ? strtoull(argv[1], NULL, 10) : 16) * 256, forks = 0, wrong = 0;
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 5);
	uint64_t *p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 2;
	for (uint64_t n = 0; n < pages; n++)
		for (uint64_t i = 0; i < WORDS; i++)
			p[n * WORDS + i] = n * i;
	while (time(NULL) < end) {
		pid_t children[2];
		for (int n = 0; n < 2; n++, forks++) {
			uint64_t one = forks * 7919 % pages, other = forks * 104729 % pages;
			children[n] = fork();
			if (children[n] == 0) {
				int bad = p[one * WORDS + 5] != one * 5;
				p[other * WORDS + 7]++;
				_exit(bad | (p[other * WORDS + 7] != other * 7 + 1));
			}
		}
		for (int n = 0; n < 2; n++) {
			int status;
			wrong += children[n] < 0 || waitpid(children[n], &status, 0) != children[n] || status != 0;
		}
	}
	for (uint64_t n = 0; n < pages; n++)
		wrong += p[n * WORDS + 7] != n * 7;
	fprintf(stderr, "%llu forks\n", (unsigned long long)forks);
	printf("%llu wrong\n", (unsigned long long)wrong);
	return wrong != 0;
}
