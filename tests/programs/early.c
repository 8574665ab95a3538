/*
 * A library to be preloaded: its constructor, and a function that is chosen while the loader still relocates, make system calls and a thread-like
 * child by libc's `syscall` and `clone`. Prints how many were wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK (64 << 10)

static int chosen(void)
{
	return 1;
}

static int not_chosen(void)
{
	return 0;
}

static int (*choose(void))(void)
{
	return syscall(SYS_getpid) > 0 ? chosen : not_chosen;
}

static int early(void) __attribute__((ifunc("choose")));

static int share(void *number)
{
	*(volatile int *)number = 5;
	return 3;
}

static int copy(void *number)
{
	return *(int *)number;
}

static int end_of(pid_t child)
{
	int status;
	return child > 0 && waitpid(child, &status, __WALL) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

__attribute__((constructor)) static void begin(void)
{
	int number = 4, wrong = early() != 1;
	wrong += syscall(SYS_close, -1) != -1 || errno != EBADF;
	char *stack = (char *)syscall(SYS_mmap, NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	wrong += end_of(clone(copy, stack + STACK, SIGCHLD, &number)) != 4;
	wrong += end_of(clone(share, stack + STACK, CLONE_VM | SIGCHLD, &number)) != 3 || number != 5;
	wrong += clone(NULL, stack + STACK, SIGCHLD, &number) != -1 || errno != EINVAL;
	wrong += clone(copy, stack + STACK, CLONE_SIGHAND, &number) != -1 || errno != EINVAL;
	pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0)
		_exit(6);
	wrong += end_of(child) != 6;
	syscall(SYS_munmap, stack, STACK);
	char line[64];
	/* Programs that this one starts have it, too. */
	if (getenv("LD_PRELOAD") && strstr(program_invocation_short_name, "apart"))
		wrong += write(1, line, snprintf(line, sizeof line, "early: %d wrong\n", wrong)) < 0;
}
