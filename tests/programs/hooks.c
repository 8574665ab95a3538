/* Calls that the library stands in front of, from where a program may make them. hooks MODE MIB
 * MIB MiB are filled first and read again at the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1ul << 20)
#define SIZE (8 * MIB)
#define READ (16 * MIB)
#define ERRNO 1234
#define ROUNDS 20
#define THREADS 8
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static uint64_t *memory;
static size_t words;
/* READ bytes. */
static int file;
static volatile sig_atomic_t signals, bad_in_signals;

static void write_to(char *at, size_t from, size_t to)
{
	for (size_t i = from; i < to; i += PAGE)
		*(uint64_t *)(at + i) = i + 1;
}

/* Pages that are not as write_to left them, or not zero. */
static int wrong_in(const char *at, size_t from, size_t to, int zero)
{
	int count = 0;

	for (size_t i = from; i < to; i += PAGE)
		count += *(const uint64_t *)(at + i) != (zero ? 0 : i + 1);
	return count;
}

/* A call that must succeed and leave errno alone. */
#define MUST(call)                                                                                                     \
	do {                                                                                                           \
		errno = ERRNO;                                                                                         \
		if (!(call) || errno != ERRNO)                                                                         \
			return 1000;                                                                                   \
	} while (0)

/* Reads much into memory that is not there yet: how much was wrong. */
static int use_read(void)
{
	char *at;
	int count;

	MUST((at = mmap(NULL, READ, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
	MUST(pread(file, at, READ, 0) == (ssize_t)READ);
	count = wrong_in(at, 0, READ, 0);
	MUST(!madvise(at, READ, MADV_DONTNEED));
	MUST(pread(file, at, READ, READ - MIB) == (ssize_t)MIB);
	count += wrong_in(at, MIB, READ, 1);
	MUST(read(file, at, READ) == 0);
	MUST(pread64(file, at, READ, 0) == (ssize_t)READ);
	count += wrong_in(at, 0, READ, 0);
	MUST(!munmap(at, READ));
	errno = 0;
	count += pread(file, (void *)PAGE, READ, 0) != -1 || errno != EFAULT;
	count += pread(-1, at, READ, 0) != -1 || errno != EBADF;
	return count;
}

/* Each of the calls once. How much was wrong. */
static int use(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
	int saved = errno, count = 0;
	static volatile unsigned turns;
	char *at;

	MUST(sbrk(0) != (void *)-1);
	MUST((at = mmap(NULL, SIZE, both, flags, -1, 0)) != MAP_FAILED);
	write_to(at, 0, SIZE);
	MUST((at = mremap(at, SIZE, SIZE + 4 * MIB, MREMAP_MAYMOVE)) != MAP_FAILED);
	MUST(!madvise(at + SIZE, 4 * MIB, MADV_POPULATE_WRITE) || errno == EINVAL);
	count += wrong_in(at, SIZE, SIZE + 4 * MIB, 1);
	write_to(at, SIZE, SIZE + 4 * MIB);
	/* These have the engine look and move memory, which takes its time. */
	if (turns++ % 16 == 0) {
		MUST(!madvise(at, SIZE, MADV_SEQUENTIAL) && !posix_madvise(at, SIZE, POSIX_MADV_NORMAL));
		madvise(at, 2 * MIB, 21 /* PAGEOUT */);
		MUST(!posix_madvise(at, MIB, POSIX_MADV_WILLNEED));
		count += use_read();
	}
	MUST(!madvise(at + MIB, MIB, MADV_DONTNEED));
	MUST(mmap(at + 4 * MIB, MIB, both, flags | MAP_FIXED, -1, 0) == at + 4 * MIB);
	count += wrong_in(at, 0, MIB, 0) + wrong_in(at, MIB, 2 * MIB, 1) + wrong_in(at, 2 * MIB, 4 * MIB, 0);
	count += wrong_in(at, 4 * MIB, 5 * MIB, 1) + wrong_in(at, 5 * MIB, SIZE + 4 * MIB, 0);
	MUST(!munmap(at, SIZE + 4 * MIB));
	errno = saved;
	return count;
}

static size_t wrong(void)
{
	size_t count = 0;

	for (size_t i = 0; i < words; i++)
		count += memory[i] != i * 3 + 1;
	return count;
}

static void on_alarm(int signal)
{
	(void)signal;
	bad_in_signals += use() > 0;
	signals++;
}

/* In a handler, on a small stack, while the program reads what is out. */
static int in_a_signal(void)
{
	static char room[32 << 10];
	stack_t stack = { .ss_sp = room, .ss_size = sizeof room };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_ONSTACK | SA_RESTART };
	struct itimerval often = { { 0, 20000 }, { 0, 20000 } }, never = { 0 };
	size_t bad = 0;

	if (sigaltstack(&stack, NULL) || sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &often, NULL))
		return 1;
	while (signals < ROUNDS)
		bad += wrong();
	setitimer(ITIMER_REAL, &never, NULL);
	return bad_in_signals || bad;
}

static int in_a_child_of_vfork(void)
{
	volatile int bad = 0;

	for (volatile int i = 0; i < ROUNDS; i++) {
		int status = 1;
		pid_t child = vfork();

		if (!child)
			_exit(use() > 0);
		if (waitpid(child, &status, 0) != child || status)
			bad++;
	}
	return bad;
}

static int rounds(void)
{
	int bad = 0;

	for (int i = 0; i < ROUNDS; i++)
		bad += use() > 0;
	return bad;
}

static int without_descriptors(void)
{
	struct rlimit none = { 0, 0 };

	return setrlimit(RLIMIT_NOFILE, &none) || rounds();
}

static int in_another_root(void)
{
	return chroot("/usr") || chdir("/") || rounds();
}

static void *in_thread(void *bad)
{
	*(int *)bad = rounds();
	return NULL;
}

static int in_threads(void)
{
	pthread_t threads[THREADS];
	int bad[THREADS], all = 0;
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, (size_t)sysconf(_SC_THREAD_STACK_MIN));
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], &small, in_thread, &bad[i]))
			return 1;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		all += bad[i];
	}
	return all;
}

static void on_signal(int signal)
{
	(void)signal;
	bad_in_signals += use_read() > 0;
}

static void *in_read(void *end)
{
	char byte;

	return read(*(int *)end, &byte, 1) < 0 ? NULL : end;
}

/* A thread that waits in a call which is a point of cancellation. */
static int cancelled(void)
{
	int ends[2];
	void *result = NULL;
	pthread_t thread;

	if (pipe(ends) || pthread_create(&thread, NULL, in_read, ends))
		return 1;
	usleep(10000);
	return pthread_cancel(thread) || pthread_join(thread, &result) || result != PTHREAD_CANCELED || close(ends[0]) ||
	       close(ends[1]);
}

/* Before the program has memory that may leave: the library does other things then. */
static int early(void)
{
	static char room[32 << 10];
	stack_t stack = { .ss_sp = room, .ss_size = sizeof room }, none = { .ss_flags = SS_DISABLE };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK }, usual = { .sa_handler = SIG_DFL };
	int status = 1;
	pid_t child;

	if (use_read() || cancelled() || sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL) || raise(SIGUSR1))
		return 1;
	if (bad_in_signals || sigaction(SIGUSR1, &usual, NULL) || sigaltstack(&none, NULL))
		return 1;
	child = vfork();
	if (!child)
		_exit(use_read() > 0);
	return waitpid(child, &status, 0) != child || status;
}

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		int (*run)(void);
	} modes[] = {
		{ "signal", in_a_signal },
		{ "vfork", in_a_child_of_vfork },
		{ "descriptors", without_descriptors },
		{ "root", in_another_root },
		{ "threads", in_threads },
	};

	if (argc < 3)
		return 2;
	words = (size_t)atoi(argv[2]) * MIB / sizeof *memory;
	file = memfd_create("hooks", 0);
	for (size_t i = 0; i < READ; i += PAGE) {
		uint64_t word = i + 1;
		if (pwrite(file, &word, sizeof word, (off_t)i) != sizeof word)
			return 3;
	}
	if (ftruncate(file, (off_t)READ) || lseek(file, 0, SEEK_END) != (off_t)READ)
		return 3;
	if (early())
		return 4;
	memory = mmap(NULL, words * sizeof *memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 3;
	for (size_t i = 0; i < words; i++)
		memory[i] = i * 3 + 1;
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (!strcmp(modes[i].name, argv[1])) {
			int bad = modes[i].run() + (wrong() > 0);

			printf("hooks %s: %s\n", argv[1], bad ? "wrong" : "ok");
			return bad != 0;
		}
	return 2;
}
