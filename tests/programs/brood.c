/*
 * brood PROCESSES MIB SECONDS: so many processes of MIB MiB each, which are filled one after another, then fork as fast as they can. Each child looks at a
 * page, writes and looks at another, and ends: of a few that all use, now and then of all. Prints how many found something wrong, or did not end well; on
 * standard error how many forks that were.
 */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS 512
#define HOT 32 /* pages that each child may use */
#define RARE 64 /* forks from one child that uses others to the next */
#define TURN 4096 /* forks from a look at all to the next */

struct count {
	uint64_t forks, wrong;
};

static uint64_t pages, *memory;

static int child(uint64_t n, uint64_t who)
{
	uint64_t among = n % RARE == 0 ? pages : HOT;
	uint64_t one = n * 7919 % among, other = n * 104729 % among;
	int bad = memory[one * WORDS + 5] != one * 5 + who;
	memory[other * WORDS + 7]++;
	return bad | (memory[other * WORDS + 7] != other * 7 + who + 1);
}

static struct count process(uint64_t who, time_t seconds, int filled, int go)
{
	struct count count = { 0, 0 };
	char byte;
	memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return (struct count){ 0, 1 };
	for (uint64_t n = 0; n < pages; n++) {
		for (uint64_t i = 0; i < WORDS; i++)
			memory[n * WORDS + i] = n * i + who;
		if (n % 256 == 255)
			usleep(20000); /* how fast it is filled is not the matter here */
	}
	count.wrong = write(filled, "", 1) != 1 || read(go, &byte, 1) != 1;
	for (time_t end = time(NULL) + seconds; time(NULL) < end; count.forks++) {
		int status;
		pid_t pid = fork();
		if (pid == 0)
			_exit(child(count.forks, who));
		count.wrong += pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
		for (uint64_t n = 0; count.forks % TURN == TURN - 1 && n < pages; n++)
			count.wrong += memory[n * WORDS + 7] != n * 7 + who;
	}
	for (uint64_t n = 0; n < pages; n++)
		for (uint64_t i = 0; i < WORDS; i++)
			count.wrong += memory[n * WORDS + i] != n * i + who;
	return count;
}

int main(int argc, char **argv)
{
	uint64_t processes = argc > 1 ? strtoull(argv[1], NULL, 10) : 8;
	pages = (argc > 2 ? strtoull(argv[2], NULL, 10) : 6) * 256;
	time_t seconds = argc > 3 ? atoi(argv[3]) : 5;
	struct count sum = { 0, 0 }, count;
	int said[2], filled[2], go[2];
	if (pipe(said) != 0 || pipe(filled) != 0 || pipe(go) != 0)
		return 2;
	for (uint64_t who = 1; who <= processes; who++) {
		pid_t pid = fork();
		if (pid < 0)
			return 2;
		if (pid == 0) {
			count = process(who, seconds, filled[1], go[0]);
			_exit(write(said[1], &count, sizeof count) != sizeof count);
		}
		char byte;
		sum.wrong += read(filled[0], &byte, 1) != 1;
	}
	for (uint64_t who = 1; who <= processes; who++)
		sum.wrong += write(go[1], "", 1) != 1;
	for (uint64_t who = 1; who <= processes; who++) {
		int status;
		sum.wrong += wait(&status) < 0 || status != 0 || read(said[0], &count, sizeof count) != sizeof count;
		sum.forks += count.forks;
		sum.wrong += count.wrong;
	}
	fprintf(stderr, "%llu forks\n", (unsigned long long)sum.forks);
	printf("%llu wrong\n", (unsigned long long)sum.wrong);
	return sum.wrong != 0;
}
