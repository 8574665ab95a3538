/* ownclone: a program with a function of its own that is called `clone`, and that makes a process by glibc's other name for it. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define STACK 65536

extern int __clone(int (*)(void *), void *, int, void *, ...);

__attribute__((visibility("default"))) int clone(int left, int right)
{
	return left * 1000 + right;
}

static int ends(void *status)
{
	return *(int *)status;
}

int main(void)
{
	char *stack = malloc(STACK);
	int wanted = 7, status = 0;
	pid_t child = __clone(ends, stack + STACK, SIGCHLD, &wanted);
	if (child > 0)
		waitpid(child, &status, 0);
	printf("%d %d\n", clone(3, 4), WEXITSTATUS(status));
	return 0;
}
