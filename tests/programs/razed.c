// A process that unmaps its staging area, and forks by a raw clone right after. Exits with 3 if it has none.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define STAGE (64ul << 20)

static volatile unsigned long *memory;
static size_t words;

static unsigned long value(size_t at)
{
	return (at * 2654435761ul >> 5) | 1;
}

static void *stage(void)
{
	char line[512];
	unsigned long start, end, found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx rw-p", &start, &end) == 2 && end - start > STAGE - 16 * PAGE && end - start <= STAGE)
			found = start;
	if (maps)
		fclose(maps);
	return (void *)found;
}

int main(void)
{
	size_t bytes = 96ul << 20;
	words = bytes / sizeof *memory;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t at = 0; at < words; at++)
		memory[at] = value(at);
	void *area = stage();
	if (!area)
		return 3;
	munmap(area, STAGE);
	long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		for (size_t at = 0; at < words; at++)
			if (memory[at] != value(at)) {
				puts("wrong");
				fflush(stdout);
				_exit(1);
			}
		_exit(0);
	}
	int status;
	waitpid((pid_t)child, &status, 0);
	return 0;
}
