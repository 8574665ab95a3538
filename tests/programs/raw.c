/*
 * raw MODE MIB SECONDS: a process with MIB MiB makes one child, which waits for so many seconds and then checks all of its memory. Prints how many
 * words the child found wrong, or the signal that ended it.
 *
 * clone, clone3: the child is made by an instruction of this program's own, which no library sees. early: the same, before there is any memory
 * to speak of. home: the same, after all that was out has come back, before more leaves. hidden: the same, and nobody may look at it. orphan: the same, by a process that
 * ends at once. stopped: by fork, and stopped at its birth. vfork, spawn, exec: the child executes this program again.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 512
#define MOST 100

static volatile uint64_t *memory;
static uint64_t pages;
static char *self, *seconds;
extern char **environ;

static long enter(long number, long one, long two)
{
#if defined(__x86_64__)
	long result;
	register long r10 __asm__("r10") = 0, r8 __asm__("r8") = 0;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(one), "S"(two), "d"(0L), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = one, x1 __asm__("x1") = two;
	register long x2 __asm__("x2") = 0, x3 __asm__("x3") = 0, x4 __asm__("x4") = 0;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
#endif
}

static uint64_t check(void)
{
	uint64_t wrong = 0;
	for (uint64_t page = 0; page < pages; page++)
		wrong += memory[page * WORDS + page % WORDS] != page + 7;
	return wrong > MOST ? MOST : wrong;
}

static void fill(uint64_t mib)
{
	uint64_t count = mib << 8;
	volatile uint64_t *all = malloc(count * WORDS * sizeof *all);
	for (uint64_t page = 0; page < count; page++)
		all[page * WORDS + page % WORDS] = page + 7;
	memory = all;
	pages = count;
}

static void wait_some(void)
{
	struct timespec left = { atoi(seconds), 0 };
	while (nanosleep(&left, &left) != 0)
		;
}

static void live(void)
{
	wait_some();
	_exit(check());
}

/* A child by an instruction of this program's own would not come far without these. */
static void keep(const void *place)
{
	uintptr_t page = (uintptr_t)place & -4096;
	if (mlock((void *)(page - 8192), 4 * 4096) != 0 && mlock((void *)page, 4096) != 0)
		perror("mlock");
}

static pid_t by_clone(void)
{
	keep(__builtin_frame_address(0));
	keep(&memory);
	pid_t child = enter(SYS_clone, SIGCHLD, 0);
	if (child == 0)
		live();
	return child;
}

static pid_t by_clone3(void)
{
	struct clone_args arguments = { .exit_signal = SIGCHLD };
	keep(&arguments);
	keep(&memory);
	pid_t child = enter(SYS_clone3, (long)&arguments, sizeof arguments);
	if (child == 0)
		live();
	return child;
}

static pid_t leave_a_child(int *ends)
{
	keep(__builtin_frame_address(0));
	keep(&memory);
	pid_t child = enter(SYS_clone, SIGCHLD, 0);
	if (child == 0) {
		wait_some();
		int wrong = check();
		_exit(write(ends[1], &wrong, sizeof wrong) < 0);
	}
	return child;
}

/* A process between this one and the child, which ends. What becomes of the child is told by a pipe that it holds. */
static pid_t by_an_orphan(void)
{
	int ends[2], wrong = 0;
	if (pipe(ends) != 0)
		return -1;
	pid_t between = fork();
	if (between == 0) {
		if (check() != 0)
			_exit(1);
		pid_t child = leave_a_child(ends);
		_exit(child < 0);
	}
	close(ends[1]);
	if (waitpid(between, &wrong, 0) != between || wrong != 0)
		return -1;
	ssize_t got = read(ends[0], &wrong, sizeof wrong);
	printf("%s", got == 0 ? "ended; " : "not ended; ");
	pid_t last = fork();
	if (last == 0)
		_exit(0);
	return last;
}

/* A child that shares its parent's descriptors cannot be given what is out, so that all of it comes back. */
static pid_t by_clone_at_home(uint64_t mib)
{
	fill(mib);
	volatile uint64_t *more = memory;
	fill(mib / 6);
	free((void *)more);
	pid_t first = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (first == 0)
		_exit(0);
	waitpid(first, NULL, 0);
	return by_clone();
}

/* Stops whatever child this process has, as soon as it is there. */
static void *stop_a_child(void *nothing)
{
	char path[64], line[64];
	for (;;) {
		snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
		FILE *children = fopen(path, "r");
		pid_t child = children && fgets(line, sizeof line, children) ? atoi(line) : 0;
		if (children)
			fclose(children);
		if (child == 0)
			continue;
		kill(child, SIGSTOP);
		wait_some();
		kill(child, SIGCONT);
		return nothing;
	}
}

static pid_t by_fork_and_stopped(void)
{
	pthread_t stopper;
	pthread_create(&stopper, NULL, stop_a_child, NULL);
	pid_t child = fork();
	if (child == 0)
		live();
	return child;
}

static pid_t by_vfork(void)
{
	pid_t child = vfork();
	if (child == 0) {
		wait_some();
		execl(self, self, "again", "24", seconds, NULL);
		_exit(MOST);
	}
	return child;
}

static pid_t by_spawn(void)
{
	pid_t child = -1;
	char *words[] = { self, "again", "24", seconds, NULL };
	return posix_spawn(&child, self, NULL, NULL, words, environ) == 0 ? child : -1;
}

static pid_t by_exec(void)
{
	pid_t child = fork();
	if (child == 0) {
		execl(self, self, "again", "24", seconds, NULL);
		_exit(MOST);
	}
	return child;
}

static pid_t make(const char *mode)
{
	if (strcmp(mode, "clone3") == 0)
		return by_clone3();
	if (strcmp(mode, "stopped") == 0)
		return by_fork_and_stopped();
	if (strcmp(mode, "vfork") == 0)
		return by_vfork();
	if (strcmp(mode, "spawn") == 0)
		return by_spawn();
	if (strcmp(mode, "exec") == 0)
		return by_exec();
	if (strcmp(mode, "orphan") == 0)
		return by_an_orphan();
	return by_clone();
}

int main(int count, char **words)
{
	if (count < 4)
		return 2;
	const char *mode = words[1];
	uint64_t mib = strtoull(words[2], NULL, 10);
	int fixed = strcmp(mode, "exec") == 0;
	self = words[0];
	seconds = words[3];
	/* Where each process that executes this program has the same addresses. */
	if (fixed && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE) && personality(ADDR_NO_RANDOMIZE) != -1)
		execv(self, words);
	if (strcmp(mode, "again") == 0) {
		fill(mib);
		live();
	}
	pid_t child = 0;
	if (strcmp(mode, "early") == 0)
		child = by_clone();
	if (strcmp(mode, "home") == 0)
		child = by_clone_at_home(mib);
	if (strcmp(mode, "hidden") == 0)
		prctl(PR_SET_DUMPABLE, 0);
	fill(mib);
	if (child == 0)
		child = make(mode);
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child)
		return perror("a child"), 1;
	if (WIFSIGNALED(status))
		printf("%s: signal %d", mode, WTERMSIG(status));
	else
		printf("%s: %d wrong", mode, WEXITSTATUS(status));
	printf(", %d wrong here\n", (int)check());
	return 0;
}
