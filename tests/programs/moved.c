/*
 * moved SECONDS: a thread moves one page to and fro by UFFDIO_MOVE, another forks and writes to it at once. Where a move
 * fails the page is looked for. Prints how often it was in both places or in none; on stderr, how often it had moved
 * though the kernel said that it had not. Ends with 77 where there is no UFFDIO_MOVE.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

/* As in Linux 6.8; older headers do not have it. */
struct move {
	uint64_t target, source, bytes, mode;
	int64_t moved;
};
#define FEATURE_MOVE (1 << 16)
#define MOVE _IOWR(UFFDIO, 5, struct move)

static char *home, *stage;
static volatile int done;
static int uffd, pagemap;
static long moves, misled, astray;

static int is_there(char *page)
{
	uint64_t word = 0;
	if (pread(pagemap, &word, sizeof word, (off_t)((uintptr_t)page / PAGE * sizeof word)) != sizeof word)
		exit(2);
	return word >> 62 != 0;
}

static void move(char *target, char *source)
{
	while (!done) {
		struct move arg = { (uintptr_t)target, (uintptr_t)source, PAGE, 0, 0 };
		if (ioctl(uffd, MOVE, &arg) == 0) {
			moves++;
			return;
		}
		if (errno == EBUSY || errno == EAGAIN)
			continue; /* shared by a fork, until it is written */
		int left = is_there(source), came = is_there(target);
		misled += !left && came;
		astray += left == came;
		return;
	}
}

static void *to_and_fro(void *unused)
{
	struct uffdio_range range = { (uintptr_t)home, PAGE };
	while (!done) {
		move(stage, home);
		move(home, stage);
		ioctl(uffd, UFFDIO_WAKE, &range);
	}
	ioctl(uffd, UFFDIO_UNREGISTER, &range);
	return unused;
}

static char *map(void)
{
	return mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(int argc, char **argv)
{
	struct uffdio_api api = { UFFD_API, FEATURE_MOVE, 0 };
	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) < 0)
		return 77;
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	home = map();
	map(); /* so that they are two mappings */
	stage = map();
	madvise(stage, PAGE, MADV_DONTFORK);
	*home = 1;
	struct uffdio_register missing = { { (uintptr_t)home, PAGE }, UFFDIO_REGISTER_MODE_MISSING, 0 };
	struct uffdio_register target = { { (uintptr_t)stage, PAGE }, UFFDIO_REGISTER_MODE_WP, 0 };
	if (pagemap < 0 || ioctl(uffd, UFFDIO_REGISTER, &missing) < 0 || ioctl(uffd, UFFDIO_REGISTER, &target) < 0)
		return 77;
	pthread_t mover;
	pthread_create(&mover, NULL, to_and_fro, NULL);
	long forks = 0;
	for (time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5); time(NULL) < end; forks++) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		for (int n = 0; n < 20; n++)
			++*(volatile int *)(home + 64);
		waitpid(child, NULL, 0);
	}
	done = 1;
	pthread_join(mover, NULL);
	fprintf(stderr, "%ld forks, %ld moves, %ld moved though the kernel said no\n", forks, moves, misled);
	printf("%ld astray\n", astray);
	return 0;
}
