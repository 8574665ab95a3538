/* Children of every kind read what their parent had out. */
#include "kernel.h"
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

#define TAG 21

extern char **environ;

static void end(void)
{
	_exit(0);
}

/* A child reads pages that were out when it was born, while its parent writes new ones. */
static void fork_reads(void)
{
	size_t bytes = data_mib * MIB;
	char *p = map(bytes);
	for (uint64_t round = 0; round < 4; round++) {
		fill(p, bytes, TAG + round, 0);
		press();
		pid_t pid = fork();
		if (pid == 0) {
			check(p, bytes, TAG + round, 0, "a forked child");
			end();
		}
		fill(p, bytes, 500 + round, 0);
		child_ok(pid, "forked child");
		check(p, bytes, 500 + round, 0, "the parent of a forked child");
	}
}

/* A fork of libc's that calls no handlers. */
extern pid_t _Fork(void) __attribute__((weak));

static void fork_bare(void)
{
	size_t bytes = data_mib * MIB;
	char *p = map(bytes);
	fill(p, bytes, TAG, 0);
	press();
	pid_t pid = _Fork ? _Fork() : fork();
	if (pid == 0) {
		check(p, bytes, TAG, 0, "a child of _Fork");
		end();
	}
	child_ok(pid, "child of _Fork");
	check(p, bytes, TAG, 0, "the parent of a child of _Fork");
}

/* The child's writes are the child's own; its pages go out and come back too. */
static void fork_writes(void)
{
	size_t bytes = data_mib * MIB;
	char *p = map(bytes);
	fill(p, bytes, TAG, 0);
	press();
	pid_t pid = fork();
	if (pid == 0) {
		fill(p, bytes / 2, 77, 0);
		press();
		check(p, bytes / 2, 77, 0, "what the child wrote");
		check(p + bytes / 2, bytes / 2, TAG, bytes / 2 / PAGE, "what the child inherited");
		end();
	}
	press();
	child_ok(pid, "child that writes");
	check(p, bytes, TAG, 0, "the parent of a child that writes");
}

/* Pages shared after a fork go out as well, while the child lives and after it. */
static void fork_shared(void)
{
	size_t bytes = data_mib * MIB;
	int fd[2];
	char c, *p = map(bytes);
	fill(p, bytes, TAG, 0);
	MUST(!pipe(fd));
	pid_t pid = fork();
	if (pid == 0) {
		close(fd[1]);
		if (read(fd[0], &c, 1) != 0)
			_exit(1);
		check(p, bytes, TAG, 0, "a child that waited");
		end();
	}
	close(fd[0]);
	press();
	check(p, bytes, TAG, 0, "shared pages");
	press();
	close(fd[1]);
	child_ok(pid, "child that shares");
	for (int i = 0; i < 3; i++) {
		press();
		check(p, bytes, TAG, 0, "pages that were shared");
	}
	fill(p, bytes, TAG + 1, 0);
	press();
	check(p, bytes, TAG + 1, 0, "pages written after the child's end");
}

static void generations(char *p, size_t bytes, int depth)
{
	check(p, bytes, (uint64_t)depth, 0, "what a generation inherited");
	if (depth == 5)
		return;
	fill(p, bytes, (uint64_t)depth + 1, 0);
	if (depth & 1)
		press();
	pid_t pid = fork();
	if (pid == 0) {
		generations(p, bytes, depth + 1);
		end();
	}
	fill(p, bytes, 900, 0);
	child_ok(pid, "next generation");
	check(p, bytes, 900, 0, "a generation's own pages");
}

/* Child of child of child. */
static void fork_chain(void)
{
	size_t bytes = data_mib * MIB / 4;
	char *p = map(bytes);
	fill(p, bytes, 0, 0);
	press();
	generations(p, bytes, 0);
}

/* Many children at once. */
static void fork_many(void)
{
	size_t bytes = data_mib * MIB / 2;
	char *p = map(bytes);
	pid_t pid[12];
	fill(p, bytes, TAG, 0);
	press();
	for (size_t i = 0; i < 12; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			for (size_t n = 0; n < bytes / PAGE; n++) {
				size_t at = (n * 7 + i * 131) % (bytes / PAGE);
				check(p + at * PAGE, PAGE, TAG, at, "one of many children");
			}
			end();
		}
	}
	for (size_t i = 0; i < 12; i++)
		child_ok(pid[i], "one of many children");
	check(p, bytes, TAG, 0, "the parent of many");
}

/* DONTFORK: not there; WIPEONFORK: zeros; both also when the pages are out. */
static void fork_advice(void)
{
	size_t part = data_mib * MIB / 4;
	char *p = map(4 * part), *dont = p + part, *wipe = p + 2 * part;
	fill(p, 4 * part, TAG, 0);
	MUST(!madvise(dont, part, MADV_DONTFORK));
	MUST(!madvise(wipe, part, MADV_WIPEONFORK));
	press();
	pid_t pid = fork();
	if (pid == 0) {
		/* the addresses are free there: somebody else's new memory may be at them, ours may not */
		for (size_t n = 0; n < part / PAGE; n++) {
			static uint64_t got[WORDS];
			struct iovec near = { got, PAGE }, far = { dont + n * PAGE, PAGE };
			if (process_vm_readv(getpid(), &near, 1, &far, 1, 0) == (ssize_t)PAGE && matches(got, TAG, (part / PAGE) + n))
				fail("MADV_DONTFORK memory is there in the child");
		}
		check_zero(wipe, part, "MADV_WIPEONFORK memory in the child");
		check(p, part, TAG, 0, "beside MADV_DONTFORK memory");
		check(p + 3 * part, part, TAG, 3 * part / PAGE, "beside MADV_WIPEONFORK memory");
		fill(wipe, part, 3, 0);
		press();
		check(wipe, part, 3, 0, "what the child wrote where it was wiped");
		end();
	}
	child_ok(pid, "child of advised memory");
	check(p, 4 * part, TAG, 0, "advised memory in the parent");
}

static char *again[5];

static char **self(const char *mode)
{
	static char data[20], press_size[20];
	snprintf(data, sizeof data, "%zu", data_mib);
	snprintf(press_size, sizeof press_size, "%zu", press_mib);
	again[0] = (char *)(uintptr_t)"/proc/self/exe";
	again[1] = (char *)(uintptr_t)mode;
	again[2] = data;
	again[3] = press_size;
	return again;
}

/* Programs executed by fork, vfork and posix_spawn are managed anew, and we stay right. */
static void exec_ways(void)
{
	size_t bytes = data_mib * MIB;
	char *p = map(bytes), **args = self("map-fixed");
	fill(p, bytes, TAG, 0);
	press();
	pid_t pid = fork();
	if (pid == 0) {
		execv(args[0], args);
		_exit(126);
	}
	child_ok(pid, "fork and exec");
	pid = vfork();
	if (pid == 0) {
		execv(args[0], args);
		_exit(126);
	}
	child_ok(pid, "vfork and exec");
	MUST(!posix_spawn(&pid, args[0], NULL, NULL, args, environ));
	child_ok(pid, "posix_spawn");
	check(p, bytes, TAG, 0, "memory of a process that started others");
}

/* A child of vfork writes in our memory, and we see it. */
static void vfork_writes(void)
{
	size_t bytes = data_mib * MIB;
	char *volatile p = map(bytes);
	fill(p, bytes, TAG, 0);
	press();
	pid_t pid = vfork();
	if (pid == 0) {
		check(p, bytes, TAG, 0, "a child of vfork");
		fill(p, bytes, TAG + 1, 0);
		end();
	}
	child_ok(pid, "vfork");
	check(p, bytes, TAG + 1, 0, "after a child of vfork wrote");
}

static int clone_main(void *arg)
{
	char *p = arg;
	size_t bytes = data_mib * MIB;
	check(p, bytes, TAG, 0, "a process in our memory");
	fill(p, bytes, TAG + 1, 0);
	press();
	_exit(0);
}

/* A process that shares our memory and is no thread, made by clone itself. */
static void clone_vm(void)
{
	size_t bytes = data_mib * MIB, stack = 256 * 1024;
	char *p = map(bytes), *s = map(stack);
	fill(p, bytes, TAG, 0);
	press();
	pid_t pid = clone(clone_main, s + stack, CLONE_VM | SIGCHLD, p);
	child_ok(pid, "clone(CLONE_VM)");
	check(p, bytes, TAG + 1, 0, "after a process in our memory wrote");
	/* and by the bare system call, as runtimes of other languages do */
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
	if (pid == 0) {
		check(p, bytes, TAG + 1, 0, "a child of the bare system call");
		end();
	}
	child_ok(pid, "clone");
}

/* Two forks, a new session, all descriptors closed: still served. */
static void daemonizes(void)
{
	size_t bytes = data_mib * MIB;
	char *p = map(bytes);
	_Atomic int *result = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fill(p, bytes, TAG, 0);
	press();
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		if (fork() > 0)
			_exit(0);
		if (chdir("/") || syscall(SYS_close_range, 0, ~0u, 0))
			for (int fd = 0; fd < 1024; fd++)
				close(fd);
		for (size_t n = 0; n < bytes / PAGE; n++)
			if (!matches(p + n * PAGE, TAG, n)) {
				*result = 2;
				_exit(1);
			}
		fill(p, bytes, 5, 0);
		press();
		check(p, bytes, 5, 0, "a daemon");
		*result = 1;
		_exit(0);
	}
	child_ok(pid, "first child");
	fill(p, bytes, TAG + 1, 0);
	for (int i = 0; *result == 0; i++) {
		usleep(10000);
		if (i > 6000)
			fail("the daemon never answered");
	}
	if (*result != 1)
		fail("the daemon read wrong bytes");
	check(p, bytes, TAG + 1, 0, "the process that started a daemon");
}

/* The program closes every descriptor there is: none of neap's is among them, and
 * the numbers it gets afterwards are its own. */
static void close_all(void)
{
	size_t bytes = data_mib * MIB;
	char *p = map(bytes);
	fill(p, bytes, TAG, 0);
	press();
	int out = dup(1);
	MUST(out == 3); /* nobody else has one */
	MUST(!syscall(SYS_close_range, 4, ~0u, 0));
	check(p, bytes, TAG, 0, "after close_range");
	press();
	for (int fd = 4; fd < 300; fd++) {
		int got = open("/dev/null", O_RDWR);
		if (got != fd)
			fail("open gave descriptor %d, must give %d", got, fd);
	}
	MUST(!syscall(SYS_close_range, 4, ~0u, 0));
	check(p, bytes, TAG, 0, "after descriptors came and went");
	close(out);
}

/* The end of a process while its threads wait for pages: status and no hang. */
static void exits_in_faults(void)
{
	size_t bytes = data_mib * MIB;
	char *p = map(bytes);
	fill(p, bytes, TAG, 0);
	for (int round = 0; round < 12; round++) {
		press();
		pid_t pid = fork();
		if (pid == 0) {
			for (int i = 0; i < 3; i++)
				if (fork() == 0) {
					check(p, bytes, TAG, 0, "a child that is being killed");
					_exit(0);
				}
			check(p, bytes, TAG, 0, "a child that is killed");
			_exit(0);
		}
		usleep((useconds_t)(round * 700));
		kill(pid, round & 1 ? SIGKILL : SIGTERM);
		int status;
		MUST(waitpid(pid, &status, 0) == pid);
		if (!WIFSIGNALED(status) && WEXITSTATUS(status))
			fail("a killed child ended with %d", WEXITSTATUS(status));
	}
	check(p, bytes, TAG, 0, "the parent of killed children");
}

/* A debugger reads pages that are out: it gets them or an error, never other bytes. */
static void ptraced(void)
{
	size_t bytes = data_mib * MIB;
	char *p = map(bytes);
	fill(p, bytes, TAG, 0);
	press();
	pid_t pid = fork();
	if (pid == 0) {
		MUST(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
		press();
		raise(SIGSTOP);
		check(p, bytes, TAG, 0, "a process that was debugged");
		end();
	}
	int status;
	MUST(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	size_t refused = 0;
	for (size_t n = 0; n < bytes / PAGE; n += 5) {
		errno = 0;
		long got = ptrace(PTRACE_PEEKDATA, pid, p + n * PAGE, NULL);
		if (errno)
			refused++;
		else if ((uint64_t)got != word(TAG, n, 0))
			fail("a debugger reads %#lx at page %zu", (unsigned long)got, n);
	}
	printf("a debugger was refused %s pages\n", refused ? "some" : "no");
	MUST(!ptrace(PTRACE_DETACH, pid, NULL, NULL));
	child_ok(pid, "debugged child");
}

/* A process that dies of an abort, with a core allowed, dies of it and does not hang. */
static void core_dump(void)
{
	size_t bytes = data_mib * MIB;
	char *p = map(bytes), dir[] = "/tmp/neap-core-XXXXXX", cmd[80];
	fill(p, bytes, TAG, 0);
	press();
	MUST(mkdtemp(dir));
	pid_t pid = fork();
	if (pid == 0) {
		struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
		setrlimit(RLIMIT_CORE, &all);
		if (chdir(dir))
			_exit(1);
		check(p, bytes / 2, TAG, 0, "a process that will dump");
		abort();
	}
	int status;
	MUST(waitpid(pid, &status, 0) == pid);
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	MUST(!system(cmd));
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		fail("the child ended with status %#x, not by SIGABRT", status);
	check(p, bytes, TAG, 0, "after a child dumped core");
}

/* The lowest page that a program may have, in a child that the C library knows nothing of. */
static void lowest_page(void)
{
	char *p = mmap((void *)0x10000, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		cannot("nothing can be mapped at 64 KiB");
	fill(p, MIB, 9, 0);
	press();
	pid_t pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		usleep(100000);
		check(p, MIB, 9, 0, "the lowest memory, in a child");
		_exit(0);
	}
	child_ok(pid, "a child with low memory");
	check(p, MIB, 9, 0, "the lowest memory");
}

const struct mode process_modes[] = {
	{ "lowest-page", lowest_page },
	{ "fork-reads", fork_reads },	{ "fork-writes", fork_writes }, { "fork-shared", fork_shared },
	{ "fork-bare", fork_bare },
	{ "fork-chain", fork_chain },	{ "fork-many", fork_many },	{ "fork-advice", fork_advice },
	{ "exec", exec_ways },		{ "vfork", vfork_writes },	{ "clone", clone_vm },
	{ "daemon", daemonizes },	{ "close-range", close_all },	{ "exit-in-faults", exits_in_faults },
	{ "ptrace", ptraced },		{ "core-dump", core_dump },	{ NULL, NULL },
};
