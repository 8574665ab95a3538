/* What a program may see of the task beside it, and what it may do to itself while that works. beside MODE MIB [MORE]
 * Each mode fills MIB MiB first, so that most of it is out under a limit, ends with 0 if all is as it was, and with 77 if
 * the machine does not let it try. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
static uint64_t *memory;
static size_t words;

static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	return x ^ x >> 29;
}

static uint64_t word(size_t i)
{
	return i % 8 ? i / 512 : mix(i);
}

static void fill(size_t mib)
{
	words = (mib << 20) / 8;
	memory = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		exit(3);
	for (size_t i = 0; i < words; i++)
		memory[i] = word(i);
}

static size_t wrong(void)
{
	size_t count = 0;
	for (size_t i = 0; i < words; i++)
		count += memory[i] != word(i);
	return count;
}

static void nap(long millis)
{
	struct timespec time = {millis / 1000, millis % 1000 * 1000000};
	nanosleep(&time, NULL);
}

static int entries(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0;
	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}

/* One thread, no child, no descriptor that it did not open. */
static int alone(void)
{
	int tasks = entries("/proc/self/task"), files = entries("/proc/self/fd");
	pid_t child = waitpid(-1, NULL, WNOHANG | __WALL);
	printf("%d thread, %s, %d files\n", tasks, child < 0 && errno == ECHILD ? "no child" : "a child", files);
	return wrong() > 0;
}

/* Enters the user namespace of another process, as nsenter -U does. */
static int enters(void)
{
	int made[2];
	char path[64], word = 0;
	if (pipe(made))
		return 3;
	pid_t child = fork();
	if (child == 0) {
		word = unshare(CLONE_NEWUSER) ? 'n' : 'y';
		if (write(made[1], &word, 1) == 1)
			pause();
		_exit(0);
	}
	int able = read(made[0], &word, 1) == 1 && word == 'y', failed = 0;
	snprintf(path, sizeof path, "/proc/%d/ns/user", child);
	if (able) {
		failed = setns(open(path, O_RDONLY), CLONE_NEWUSER);
		if (failed)
			perror("setns");
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return able ? failed || wrong() > 0 : 77;
}

/* A process that takes orphans in waits until it has no children; the agents of those below it are orphans, too. */
static int adopts(char **again)
{
	if (strcmp(again[1], "adopts-more")) {
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		again[1] = "adopts-more";
		execv("/proc/self/exe", again);
		return 3;
	}
	for (int i = 0; i < 4; i++) {
		pid_t child = fork();
		if (child == 0) {
			if (fork() == 0)
				_exit(wrong() > 0);
			_exit(0);
		}
	}
	int status, count = 0, bad = 0;
	while (wait(&status) > 0) {
		count++;
		bad += status != 0;
	}
	printf("%s ended, %d wrong\n", count < 8 ? "not all" : "all", bad);
	return wrong() > 0;
}

/* Becomes itself again and again. */
static int execs(char **again)
{
	char left[16];
	int count = atoi(again[3]);
	if (wrong())
		return 1;
	if (count == 0)
		return 0;
	snprintf(left, sizeof left, "%d", count - 1);
	again[3] = left;
	execv("/proc/self/exe", again);
	return 3;
}

/* Becomes a program that the library is not in. */
static int leaves(char **more)
{
	execv(more[3], more + 3);
	return 3;
}

/* Starts one process after the other; each forks, and starts a program. */
static int starts(char **more)
{
	int count = atoi(more[3]), bad = 0;
	char *words_of_true[] = {"true", NULL};
	for (int i = 0; i < count; i++) {
		int status = 0;
		pid_t child = 0;
		if (i % 2)
			bad += posix_spawn(&child, "/bin/true", NULL, NULL, words_of_true, NULL) != 0;
		else if ((child = fork()) == 0) {
			execv("/bin/true", words_of_true);
			_exit(9);
		}
		waitpid(child, &status, 0);
		bad += status != 0;
	}
	printf("%d of %d failed\n", bad, count);
	return wrong() > 0;
}

/* Stops and continues its own group, the child in it included. */
static int stops(void)
{
	setpgid(0, 0);
	int status = 0;
	pid_t helper = fork();
	if (helper == 0) {
		setpgid(0, 0);
		for (int i = 0; i < 20; i++) {
			kill(-getppid(), SIGSTOP);
			nap(5);
			kill(-getppid(), SIGCONT);
			nap(5);
		}
		_exit(0);
	}
	size_t bad = wrong();
	waitpid(helper, &status, 0);
	return bad + wrong() > 0;
}

/* Stops all threads of a process and reads its memory, as profilers and leak checkers do. */
static int reads(pid_t target, pid_t *stopped, int count)
{
	static char page[PAGE];
	size_t bad = 0;
	for (int i = 0; i < count; i++) {
		if (ptrace(PTRACE_SEIZE, stopped[i], 0, 0) || ptrace(PTRACE_INTERRUPT, stopped[i], 0, 0))
			return 77;
		waitpid(stopped[i], NULL, __WALL);
	}
	for (size_t i = 0; i < words; i += PAGE / 8) {
		struct iovec here = {page, PAGE}, there = {memory + i, PAGE};
		uint64_t *read = (uint64_t *)page;
		if (process_vm_readv(target, &here, 1, &there, 1, 0) != PAGE)
			return 3;
		for (size_t k = 0; k < PAGE / 8; k++)
			bad += read[k] != word(i + k);
	}
	for (int i = 0; i < count; i++)
		ptrace(PTRACE_DETACH, stopped[i], 0, 0);
	return bad > 0;
}

static int traced(void)
{
	int status, ready[2];
	char path[64];
	pid_t tasks[64], parent = getpid();
	int go[2], count = 0;
	if (pipe(ready) || pipe(go))
		return 3;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	pid_t tracer = fork();
	if (tracer == 0) {
		snprintf(path, sizeof path, "/proc/%d/task", parent);
		DIR *dir = opendir(path);
		struct dirent *entry;
		while (dir && count < 64 && (entry = readdir(dir)))
			if (entry->d_name[0] != '.')
				tasks[count++] = atoi(entry->d_name);
		for (int round = 0; round < 3; round++) {
			int result = reads(parent, tasks, count);
			if (result)
				_exit(result);
		}
		_exit(0);
	}
	while (waitpid(tracer, &status, WNOHANG) == 0)
		if (wrong()) /* meanwhile */
			return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

/* Looks at its memory until somebody takes the file away. */
static int looks(char **more)
{
	size_t bad = 0;
	printf("ready\n");
	fflush(stdout);
	do
		bad += wrong();
	while (access(more[3], F_OK) == 0 && bad == 0);
	printf("%zu wrong\n", bad);
	return bad > 0;
}

/* Becomes a user without rights, says so by a byte in the file, and reads until it is killed. */
static int drops(const char *path)
{
	int said = open(path, O_WRONLY | O_CLOEXEC);
	if (said < 0 || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 77;
	if (write(said, "1", 1) != 1)
		return 1;
	for (;;)
		if (wrong()) {
			puts("wrong");
			return 1;
		}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";
	if (!*mode)
		return 2;
	fill((size_t)atoi(argv[2]));
	if (!strcmp(mode, "alone"))
		return alone();
	if (!strcmp(mode, "enters"))
		return enters();
	if (!strncmp(mode, "adopts", 6))
		return adopts(argv);
	if (!strcmp(mode, "execs"))
		return execs(argv);
	if (!strcmp(mode, "leaves"))
		return leaves(argv);
	if (!strcmp(mode, "starts"))
		return starts(argv);
	if (!strcmp(mode, "stops"))
		return stops();
	if (!strcmp(mode, "traced"))
		return traced();
	if (!strcmp(mode, "drops"))
		return drops(argv[3]);
	if (!strcmp(mode, "looks"))
		return looks(argv);
	return 2;
}
