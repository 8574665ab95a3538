/*
 * apart MODE MIB ROUNDS: a process with MIB MiB makes children that get a copy of its memory, in ways of its own: by libc's `syscall` and
 * `clone`. Each child checks its memory, changes some of it, and may make a child in the same way. Prints how many words and answers were
 * wrong, and how many children did not end by themselves.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 512
#define STACK (256 << 10)
#define MOST 100
#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

typedef pid_t (*way)(uint64_t n, int depth);

static uint64_t pages, rounds, *memory;
static way begin;
static volatile int stop;
static pid_t told, written;
static int shared_file = -1;

static uint64_t word_of(uint64_t page)
{
	return page * 2654435761u + 7;
}

static uint64_t check(uint64_t from, uint64_t step)
{
	uint64_t wrong = 0;
	for (uint64_t page = from; page < pages; page += step)
		wrong += memory[page * WORDS + page % WORDS] != word_of(page);
	return wrong;
}

static uint64_t follow(pid_t child)
{
	int status;
	if (child < 0 || waitpid(child, &status, __WALL) != child)
		return perror("a child"), MOST;
	return WIFEXITED(status) ? WEXITSTATUS(status) : MOST;
}

static void leave(uint64_t wrong)
{
	_exit(wrong > MOST ? MOST : wrong);
}

/* What a child does. */
static uint64_t live(uint64_t n, int depth)
{
	sigset_t mask;
	uint64_t wrong = sigprocmask(SIG_SETMASK, NULL, &mask) != 0 || sigismember(&mask, SIGUSR1);
	wrong += check(n % 5, n % 3 ? 17 : 1);
	for (uint64_t page = n % 7; page < pages; page += 61)
		memory[page * WORDS + page % WORDS] = n;
	for (uint64_t page = n % 7; page < pages; page += 61)
		wrong += memory[page * WORDS + page % WORDS] != n;
	for (uint64_t page = n % 7; page < pages; page += 61)
		memory[page * WORDS + page % WORDS] = word_of(page);
	if (depth < 1 && n % 4 == 0)
		wrong += follow(begin(n + 1, depth + 1));
	return wrong + check(n % 11, 11);
}

struct start {
	uint64_t n;
	int depth;
	pid_t *own;
};

static int run(void *argument)
{
	struct start *start = argument;
	uint64_t wrong = (uintptr_t)__builtin_frame_address(0) % 16 != 0;
	if (start->own)
		wrong += *start->own != (pid_t)syscall(SYS_gettid);
	wrong += live(start->n, start->depth);
	return wrong > MOST ? MOST : wrong;
}

/* The child of a raw call goes on here. */
static pid_t raw(pid_t forked, uint64_t n, int depth)
{
	if (forked == 0)
		leave(live(n, depth));
	return forked;
}

static pid_t by_clone(uint64_t n, int depth)
{
	if (n % 2)
		return raw(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), n, depth);
	/* A page that nobody has touched. */
	pid_t *fresh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t forked = raw(syscall(SYS_clone, CLONE_PARENT_SETTID | SIGCHLD, 0, fresh, 0, 0), n, depth);
	if (forked > 0 && *fresh != forked)
		return follow(forked), -1;
	munmap(fresh, 4096);
	return forked;
}

static pid_t by_fork(uint64_t n, int depth)
{
	return raw(syscall(SYS_fork), n, depth);
}

static pid_t by_clone3(uint64_t n, int depth)
{
	static int pidfd;
	struct clone_args arguments = {
		.flags = CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | CLONE_PIDFD,
		.pidfd = (uintptr_t)&pidfd,
		.parent_tid = (uintptr_t)&told,
		.child_tid = (uintptr_t)&written,
		.exit_signal = SIGCHLD,
	};
	/* The last ends within a word, which is 0. */
	const size_t sizes[] = { sizeof arguments, CLONE_ARGS_SIZE_VER0, CLONE_ARGS_SIZE_VER0 + 4 };
	pid_t forked = syscall(SYS_clone3, &arguments, sizes[n % 3]);
	if (forked == 0)
		leave((written != (pid_t)syscall(SYS_gettid)) + live(n, depth));
	if (forked > 0 && (told != forked || arguments.flags >> 32 || fcntl(pidfd, F_GETFD) < 0 || close(pidfd) != 0))
		return follow(forked), -1;
	return forked;
}

static pid_t by_function(uint64_t n, int depth)
{
	char *stack = malloc(STACK);
	struct start start = { n, depth, &written };
	int flags = CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
	/* Not aligned: libc does that. */
	pid_t forked = clone(run, stack + STACK - n % 3, flags, &start, &told, NULL, &written);
	free(stack);
	if (forked > 0 && told != forked)
		return follow(forked), -1;
	return forked;
}

static pid_t by_function_alone(uint64_t n, int depth)
{
	char *stack = malloc(STACK);
	struct start start = { n, depth, NULL };
	pid_t forked = clone(run, stack + STACK, SIGCHLD, &start);
	free(stack);
	return forked;
}

/* As runc and chromium: a small stack within the parent's, which the child leaves at once. */
static int jump(void *place)
{
	longjmp(*(jmp_buf *)place, 1);
}

static pid_t by_jump(uint64_t n, int depth)
{
	jmp_buf place;
	char stack[4096] __attribute__((aligned(16)));
	if (setjmp(place) == 0)
		return clone(jump, stack + sizeof stack, SIGCHLD, &place);
	leave(live(n, depth));
	return -1;
}

static pid_t by_vfork(uint64_t n, int depth)
{
	if (n % 2)
		return raw(syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0), n, depth);
	struct start start = { n, depth, NULL };
	char *stack = malloc(STACK);
	pid_t forked = clone(run, stack + STACK, CLONE_VFORK | SIGCHLD, &start);
	free(stack);
	return forked;
}

static pid_t by_files(uint64_t n, int depth)
{
	int fds[2];
	(void)depth; /* two generations would share the place */
	if (pipe(fds) != 0)
		return -1;
	pid_t forked = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (forked == 0) {
		shared_file = dup2(fds[1], 200);
		uint64_t wrong = live(n, 1) + (shared_file != 200);
		wrong += write(200, "x", 1) != 1;
		leave(wrong);
	}
	char byte = 0;
	if (forked < 0 || read(fds[0], &byte, 1) != 1 || byte != 'x' || fcntl(200, F_GETFD) < 0)
		return -1;
	close(200);
	close(fds[0]);
	close(fds[1]);
	return forked;
}

/* It is the sibling of who makes it. */
static pid_t by_sibling(uint64_t n, int depth)
{
	pid_t own = getpid(), between = fork();
	if (between == 0) {
		pid_t forked = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
		if (forked == 0)
			leave((getppid() != own) + live(n, depth));
		leave((forked < 0) * 9 + check(3, 19));
	}
	int status;
	pid_t first = waitpid(-1, &status, __WALL);
	if (first < 0 || status != 0)
		return -1;
	/* The caller waits for the other. */
	pid_t other = 0;
	siginfo_t info;
	if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | __WALL) == 0)
		other = info.si_pid;
	return other == between || first == between ? other : -1;
}

static pid_t by_namespaces(uint64_t n, int depth)
{
	pid_t forked = syscall(SYS_clone, NAMESPACES | SIGCHLD, 0, 0, 0, 0);
	if (forked == 0)
		leave((getpid() != 1) + live(n, 1));
	/* Not everyone's, nor everywhere: but root's. */
	return forked < 0 && geteuid() != 0 ? by_clone(n, depth) : forked;
}

#if defined(__x86_64__) && defined(__GLIBC__)
static uint64_t stacked_n;
static int stacked_depth;

static void stacked(void)
{
	leave(((uintptr_t)__builtin_frame_address(0) % 16 != 0) + live(stacked_n, stacked_depth));
}

/* The raw call with a stack: libc's function returns to what lies there. */
static pid_t by_stack(uint64_t n, int depth)
{
	char *stack = malloc(STACK);
	uint64_t *top = (uint64_t *)(((uintptr_t)stack + STACK - 64) & ~15ul);
	*top = (uintptr_t)stacked;
	stacked_n = n;
	stacked_depth = depth;
	pid_t forked;
	if (n % 2) {
		forked = syscall(SYS_clone, SIGCHLD, top, 0, 0, 0);
	} else {
		struct clone_args arguments = { .stack = (uintptr_t)stack, .exit_signal = SIGCHLD };
		arguments.stack_size = (char *)top - stack;
		forked = syscall(SYS_clone3, &arguments, sizeof arguments);
	}
	free(stack);
	return forked;
}
#endif

static int shares(void *number)
{
	*(volatile int *)number = 5;
	return 3;
}

static void is(uint64_t *wrong, const char *what, long got, int error)
{
	if (got == -1 && errno == error)
		return;
	fprintf(stderr, "%s: %ld, %s\n", what, got, strerror(errno));
	++*wrong;
}

/* What is refused is refused as ever, and what is none of neap's business goes on as it is. */
static uint64_t answers(void)
{
	uint64_t wrong = 0;
	struct clone_args bad = { .stack = 4096, .exit_signal = SIGCHLD };
	char *stack = malloc(STACK);
	is(&wrong, "clone3 of nothing", syscall(SYS_clone3, NULL, 0), EINVAL);
	is(&wrong, "clone3 of nowhere", syscall(SYS_clone3, 8, sizeof bad), EFAULT);
	is(&wrong, "clone3 of too much", syscall(SYS_clone3, 8, 1 << 20), E2BIG);
	is(&wrong, "clone3 with half a stack", syscall(SYS_clone3, &bad, sizeof bad), EINVAL);
	bad = (struct clone_args){ .flags = CLONE_DETACHED };
	is(&wrong, "clone3 with old flags", syscall(SYS_clone3, &bad, sizeof bad), EINVAL);
	is(&wrong, "clone without sharing", syscall(SYS_clone, CLONE_THREAD | CLONE_SIGHAND, 0, 0, 0, 0), EINVAL);
	is(&wrong, "clone with signals", syscall(SYS_clone, CLONE_SIGHAND, 0, 0, 0, 0), EINVAL);
	is(&wrong, "clone() with signals", clone(shares, stack + STACK, CLONE_SIGHAND, NULL), EINVAL);
#ifdef __GLIBC__
	is(&wrong, "clone() without a stack", clone(shares, NULL, SIGCHLD, NULL), EINVAL);
#endif
	/* What the library asks of the kernel, and the kernel refuses. */
	is(&wrong, "clone for two numbers", syscall(SYS_clone, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, 0, &told, 0, 0), EINVAL);
	is(&wrong, "clone() for two numbers", clone(shares, stack + STACK, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, NULL, &told), EINVAL);
	is(&wrong, "another call", syscall(SYS_close, -1), EBADF);
	uint64_t *six = (uint64_t *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	wrong += six == MAP_FAILED || *six != 0 || syscall(SYS_munmap, six, 4096) != 0;
	int file = open("/proc/self/exe", O_RDONLY);
	char *second = (char *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, file, 4096), there[8];
	wrong += second == MAP_FAILED || pread(file, there, 8, 4096) != 8 || memcmp(second, there, 8) != 0;
	int number = 0;
	wrong += follow(clone(shares, stack + STACK, CLONE_VM | SIGCHLD, &number)) != 3 || number != 5;
	number = 0;
	wrong += follow(clone(shares, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &number)) != 3 || number != 5;
	free(stack);
	return wrong;
}

/* Threads that change mappings which are their own. */
static void *change(void *number)
{
	uint64_t n = (uint64_t)number, wrong = 0;
	while (!stop) {
		n = n * 6364136223846793005u + 1442695040888963407u;
		size_t size = (1 << 20) + (n >> 33) % (1 << 20);
		char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memset(block, (int)(n >> 40), size);
		wrong += block[size - 1] != (char)(n >> 40);
		munmap(block, size);
	}
	return (void *)wrong;
}

static void *go(void *unused)
{
	(void)unused;
	uint64_t wrong = 0;
	for (uint64_t n = 0; n < rounds; n++) {
		wrong += check(n % 3, 3);
		wrong += follow(begin(n, 0));
		wrong += check(n % 2, 2);
	}
	return (void *)wrong;
}

static pid_t by_turns(uint64_t n, int depth)
{
	way ways[] = { by_clone, by_function, by_clone3, by_jump };
	return n == 1 ? by_vfork(n, depth) : n == 2 ? by_files(n, depth) : ways[n % 4](n, depth);
}

int main(int argc, char **argv)
{
	const struct { const char *name; way way; } all[] = {
		{ "clone", by_clone }, { "fork", by_fork }, { "clone3", by_clone3 }, { "function", by_function },
		{ "function-alone", by_function_alone }, { "jump", by_jump }, { "vfork", by_vfork },
		{ "files", by_files }, { "sibling", by_sibling }, { "namespaces", by_namespaces },
#if defined(__x86_64__) && defined(__GLIBC__)
		{ "stack", by_stack },
#endif
		{ "threads", by_turns },
	};
	const char *mode = argc > 1 ? argv[1] : "clone";
	pages = strtoull(argc > 2 ? argv[2] : "48", NULL, 10) * 256;
	rounds = strtoull(argc > 3 ? argv[3] : "8", NULL, 10);
	for (size_t at = 0; at < sizeof all / sizeof *all; at++)
		if (strcmp(all[at].name, mode) == 0)
			begin = all[at].way;
	if (!begin)
		return 2;
	memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (uint64_t page = 0; page < pages; page++)
		memory[page * WORDS + page % WORDS] = word_of(page);
	uint64_t wrong = answers();
	void *result;
	if (strcmp(mode, "threads") == 0) {
		pthread_t changers[2], goer;
		for (uint64_t n = 0; n < 2; n++)
			pthread_create(&changers[n], NULL, change, (void *)(n + 1));
		pthread_create(&goer, NULL, go, NULL);
		pthread_join(goer, &result);
		wrong += (uint64_t)result;
		stop = 1;
		for (int n = 0; n < 2; n++) {
			pthread_join(changers[n], &result);
			wrong += (uint64_t)result;
		}
	} else {
		wrong += (uint64_t)go(NULL);
	}
	wrong += check(0, 1);
	printf("%s: %llu wrong\n", mode, (unsigned long long)wrong);
	return wrong != 0;
}
