/* A process that shares the memory of another, as vfork(2) makes it, and forks by libc. sharer MIB */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK (1ul << 20)
static uint64_t *memory;
static size_t words;

static size_t wrong(void)
{
	size_t count = 0;
	for (size_t i = 0; i < words; i += 512)
		count += memory[i] != i * 7 + 1;
	return count;
}

/* In a child of its own: whether all that it reads is right. */
static int forks(void *none)
{
	int status = 1;
	pid_t child = fork();
	if (!child)
		_exit(wrong() > 0);
	if (child < 0 || waitpid(child, &status, 0) != child)
		status = 1;
	_exit(status != 0);
	return none != NULL;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	words = ((size_t)atoi(argv[1]) << 20) / 8;
	memory = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *stack = malloc(STACK);
	if (memory == MAP_FAILED || !stack)
		return 3;
	for (size_t i = 0; i < words; i++)
		memory[i] = i * 7 + 1;
	int status = 1;
	pid_t child = clone(forks, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 3;
	printf("%s, %zu wrong\n", status ? "its child read wrong bytes" : "right", wrong());
	return status != 0;
}
