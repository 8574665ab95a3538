/* Processes: every way Linux has to make one, each checking what it inherited. */
#include "torture.h"
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>

extern char **environ;

/* A child must not outlive us, whatever happens to us. */
static void with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

/* The worker is in shared memory and the parent's: the child works on a copy. */
void become_child(void)
{
	static struct worker own;
	own = *me;
	me = &own;
}

static void must_be_0(const char *what, pid_t pid, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	die("%s %d ended with %s %d", what, (int)pid, WIFEXITED(status) ? "status" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static void wait_for(const char *what, pid_t pid)
{
	int status;
	if (RETRY(waitpid(pid, &status, __WALL)) != pid)
		die("waitpid: %s", strerror(errno));
	must_be_0(what, pid, status);
}

/* Children that check on while we go on changing things. */
void reap(int all)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct child *c = &me->children[i];
		int status;
		if (!c->pid)
			continue;
		pid_t got = (pid_t)RETRY(waitpid(c->pid, &status, all ? 0 : WNOHANG));
		if (got == 0)
			continue;
		if (got != c->pid)
			die("waitpid: %s", strerror(errno));
		must_be_0("child", c->pid, status);
		snapshot_drop(c->snap);
		c->pid = 0;
	}
}

static struct child *child_slot(void)
{
	/* two at once for each worker at most: each may come to own all pages it sees */
	for (uint32_t i = 0; i < 2; i++)
		if (!me->children[i].pid)
			return &me->children[i];
	reap(1);
	return &me->children[0];
}

static void child_main(struct snapshot *s, pid_t parent, int write_too, int grandchild)
{
	with_parent(parent);
	become_child();
	if (grandchild) {
		pid_t self = getpid(), pid = fork();
		if (pid < 0)
			die("fork in a child: %s", strerror(errno));
		if (pid == 0) {
			with_parent(self);
			_exit(snapshot_verify(s, 0));
		}
		wait_for("grandchild", pid);
	}
	_exit(snapshot_verify(s, write_too));
}

static void do_fork(int everyone, int raw)
{
	struct child *c = child_slot();
	struct snapshot *s = snapshot_take(everyone);
	int write_too = (int)below(2), grandchild = below(4) == 0, wait = (int)below(2);
	pid_t parent = getpid();
	note('y', (uint64_t)everyone, (uint64_t)write_too, (uint64_t)grandchild);
	pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0) : fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid == 0)
		child_main(s, parent, write_too, grandchild && !raw);
	c->pid = pid;
	c->snap = s;
	if (wait && !everyone)
		reap(1);
}

void op_fork(void)
{
	do_fork(0, 0);
}

void op_clone(void)
{
	do_fork(0, 1);
}

void op_forkall(void)
{
	pthread_rwlock_wrlock(&G->world);
	do_fork(1, 0);
	pthread_rwlock_unlock(&G->world);
}

static char **check_args(char seed[24])
{
	static __thread char *args[4];
	snprintf(seed, 24, "%llu", (unsigned long long)rnd());
	args[0] = (char *)(uintptr_t)"torture";
	args[1] = (char *)(uintptr_t)"--exec-check";
	args[2] = seed;
	args[3] = NULL;
	return args;
}

void op_forkexec(void)
{
	char seed[24];
	char **args = check_args(seed);
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid == 0) {
		with_parent(parent);
		execve("/proc/self/exe", args, environ);
		_exit(126);
	}
	note('e', (uint64_t)pid, 0, 0);
	wait_for("executed child", pid);
}

/* The child borrows our memory until it executes. */
void op_vfork(void)
{
	char seed[24];
	char **args = check_args(seed);
	struct region *r = pick();
	if (!r)
		return;
	struct region *volatile rv = r;
	volatile uint32_t at = below(r->pages);
	pid_t pid = vfork();
	if (pid < 0)
		die("vfork: %s", strerror(errno));
	if (pid == 0) {
		verify_pages(rv, at, 1);
		write_pages(rv, at, 1);
		execve("/proc/self/exe", args, environ);
		_exit(126);
	}
	note('z', (uint64_t)pid, 0, 0);
	wait_for("child of vfork", pid);
	verify_pages(r, at, 1);
}

void op_spawn(void)
{
	char seed[24];
	pid_t pid;
	int e = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, check_args(seed), environ);
	if (e)
		die("posix_spawn: %s", strerror(e));
	note('n', (uint64_t)pid, 0, 0);
	wait_for("spawned child", pid);
}

struct sibling {
	struct worker *owner;
	struct region *r;
	uint32_t first, n;
};

static int sibling_main(void *arg)
{
	/* a process of its own in our memory, without TLS of its own */
	struct sibling *b = arg;
	for (uint32_t i = b->first; i < b->first + b->n; i++) {
		const struct shadow *s = shadows + ((size_t)b->owner->id * MAX_REGIONS + b->r->slot) * G->max_pages + i;
		if (!page_ok(s, b->r->addr + (size_t)i * PAGE))
			_exit(1);
		fill_page(s, b->r->addr + (size_t)i * PAGE);
	}
	_exit(0);
}

/* clone(CLONE_VM) without CLONE_THREAD, on a stack in managed memory. */
void op_clonevm(void)
{
	struct region *r = pick();
	struct sibling b;
	uint32_t first, n;
	if (!r)
		return;
	span(r, 32, &first, &n);
	for (uint32_t i = first; i < first + n; i++)
		if (shadow_of(r)[i].state == P_FREED)
			write_pages(r, i, 1);
	b = (struct sibling){ me, r, first, n };
	size_t len = 64 * 1024;
	char *stack = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		die("mmap of a stack: %s", strerror(errno));
	memset(stack, 0x77, len);
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int flags = CLONE_VM | (below(2) ? CLONE_FILES | CLONE_FS : 0) | (below(2) ? CLONE_VFORK : 0);
	int pid = clone(sibling_main, stack + len, flags | SIGCHLD, &b);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		die("clone: %s", strerror(errno));
	note('c', (uint64_t)pid, (uint64_t)flags, 0);
	wait_for("process in our memory", pid);
	verify_pages(r, first, n);
	munmap(stack, len);
}

static int gone(pid_t pid)
{
	char path[40], buf[256];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 1;
	ssize_t n = read(fd, buf, sizeof buf - 1);
	close(fd);
	if (n <= 0)
		return 1;
	buf[n] = 0;
	char *p = strrchr(buf, ')');
	return p && p[1] == ' ' && p[2] == 'Z';
}

/* Two forks, a session, no descriptor left; then it checks, and says so in shared memory. */
void op_daemon(void)
{
	struct snapshot *s = snapshot_take(0);
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid == 0) {
		with_parent(parent);
		setsid();
		pid_t d = fork();
		if (d < 0)
			_exit(1);
		if (d > 0) {
			*snapshot_pid(s) = d;
			_exit(0);
		}
		become_child();
		*snapshot_pid(s) = getpid();
		if (chdir("/") || syscall(SYS_close_range, 0, ~0u, 0))
			for (int fd = 0; fd < 4096; fd++)
				close(fd);
		snapshot_verify(s, 1);
		*snapshot_result(s) = 1;
		_exit(0);
	}
	note('b', (uint64_t)pid, 0, 0);
	wait_for("first child of a daemon", pid);
	/* we go on changing pages while it looks */
	for (uint32_t i = 0; *snapshot_result(s) == 0; i++) {
		struct region *r = pick();
		if (r && i < 50)
			write_pages(r, below(r->pages), 1);
		usleep(500);
		if (gone(*snapshot_pid(s)) && *snapshot_result(s) == 0)
			die("daemon %d found wrong bytes or was killed", (int)*snapshot_pid(s));
	}
	snapshot_drop(s);
}

/* What an executed torture does: its own small world. */
int exec_check(uint64_t seed)
{
	uint32_t n = 256;
	uint64_t *p = malloc((size_t)n * PAGE);
	if (!p)
		return 1;
	for (uint32_t i = 0; i < n * WORDS; i++)
		p[i] = mix(seed + i / 3);
	usleep((useconds_t)(seed % 1000));
	for (uint32_t i = 0; i < n * WORDS; i++)
		if (p[i] != mix(seed + i / 3)) {
			fprintf(stderr, "torture: FAIL executed child, seed %llu: word %u is %#llx\n", (unsigned long long)seed, i,
				(unsigned long long)p[i]);
			return 1;
		}
	free(p);
	return 0;
}
