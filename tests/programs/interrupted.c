/*
 * interrupted MIB SECONDS: a timer's handler forks, whatever the program was at: it writes to MIB MiB all the time, and maps,
 * fills and unmaps some more. Each child reads everything that stands still, in the handler. Prints how many words were wrong,
 * of the program's and of its children's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS 512
#define EXTRA 64

static uint64_t *memory, pages;
static volatile uint64_t forks, failed, wrong;

/* The first word of a page changes, and the others stand still. */
static uint64_t look(uint64_t step)
{
	uint64_t found = 0;
	for (uint64_t page = 0; page < pages; page += step)
		for (uint64_t i = 1; i < WORDS; i += 37)
			found += memory[page * WORDS + i] != page * i;
	return found;
}

/* Once: the handler may take longer than that. */
static int arm(void)
{
	struct itimerval soon = { { 0, 0 }, { 0, 5000 } };
	return setitimer(ITIMER_REAL, &soon, NULL);
}

static void on_timer(int signal)
{
	int kept = errno, status = 0;
	(void)signal;
	pid_t child = fork();
	if (child == 0)
		_exit(look(3) != 0);
	forks++;
	if (child < 0 || waitpid(child, &status, 0) != child)
		failed++;
	else
		wrong += status != 0;
	failed += arm() != 0;
	errno = kept;
}

int main(int argc, char **argv)
{
	pages = (argc > 1 ? strtoull(argv[1], NULL, 10) : 48) * 256;
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 5);
	memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 2;
	for (uint64_t page = 0; page < pages; page++)
		for (uint64_t i = 1; i < WORDS; i++)
			memory[page * WORDS + i] = page * i;
	struct sigaction action = { .sa_handler = on_timer, .sa_flags = SA_RESTART };
	if (sigaction(SIGALRM, &action, NULL) || arm())
		return 2;
	uint64_t round = 0;
	while (time(NULL) < end) {
		round++;
		for (uint64_t page = 0; page < pages; page += 7)
			memory[page * WORDS] = round;
		for (uint64_t page = 0; page < pages; page += 7)
			wrong += memory[page * WORDS] != round;
		unsigned char *extra = mmap(NULL, EXTRA * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (extra == MAP_FAILED)
			return 2;
		memset(extra, (int)round, EXTRA * 4096);
		for (int page = 0; page < EXTRA; page++)
			wrong += extra[page * 4096 + 7] != (unsigned char)round;
		munmap(extra, EXTRA * 4096);
	}
	signal(SIGALRM, SIG_IGN);
	wrong += look(1);
	fprintf(stderr, "%llu forks\n", (unsigned long long)forks);
	printf("%llu wrong, %llu failed\n", (unsigned long long)wrong, (unsigned long long)failed);
	return wrong + failed != 0 || forks == 0;
}
