/*
 * moved_pair SECONDS: a thread moves two pages in one call of UFFDIO_MOVE, another forks and writes to the second at once.
 * Where the call says that one page moved the second is looked for. Prints how often it was in both places or in none; on
 * stderr, how often it had moved though it was not counted. Ends with 77 where there is no UFFDIO_MOVE.
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
static long moves, shorts, uncounted, astray;

static int is_there(char *page)
{
	uint64_t word = 0;
	if (pread(pagemap, &word, sizeof word, (off_t)((uintptr_t)page / PAGE * sizeof word)) != sizeof word)
		exit(2);
	return word >> 62 != 0;
}

/* Whether all of it moved; how many bytes it says that it moved, or a negative errno. */
static int move(char *target, char *source, uint64_t bytes, long *moved)
{
	struct move arg = { (uintptr_t)target, (uintptr_t)source, bytes, 0, 0 };
	int done = ioctl(uffd, MOVE, &arg);
	*moved = arg.moved;
	return done == 0;
}

static void move_one(char *target, char *source)
{
	long moved;
	while (!done && !move(target, source, PAGE, &moved) && !(is_there(target) && !is_there(source)))
		;
}

static void *to_and_fro(void *unused)
{
	struct uffdio_range range = { (uintptr_t)home, 2 * PAGE };
	while (!done) {
		long moved;
		if (move(stage, home, 2 * PAGE, &moved)) {
			moves++;
			move_one(home, stage);
			move_one(home + PAGE, stage + PAGE);
		} else if (moved == PAGE) {
			int left = is_there(home + PAGE), came = is_there(stage + PAGE);
			shorts++;
			uncounted += !left && came;
			astray += left == came;
			if (!left && came)
				move_one(home + PAGE, stage + PAGE);
			move_one(home, stage);
		} else if (!is_there(home) && is_there(stage)) {
			move_one(home, stage); /* it said so of the first */
		}
		ioctl(uffd, UFFDIO_WAKE, &range);
	}
	ioctl(uffd, UFFDIO_UNREGISTER, &range);
	return unused;
}

static char *map(void)
{
	return mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
	madvise(stage, 2 * PAGE, MADV_DONTFORK);
	home[0] = home[PAGE] = 1;
	struct uffdio_register missing = { { (uintptr_t)home, 2 * PAGE }, UFFDIO_REGISTER_MODE_MISSING, 0 };
	struct uffdio_register target = { { (uintptr_t)stage, 2 * PAGE }, UFFDIO_REGISTER_MODE_WP, 0 };
	if (pagemap < 0 || ioctl(uffd, UFFDIO_REGISTER, &missing) < 0 || ioctl(uffd, UFFDIO_REGISTER, &target) < 0)
		return 77;
	pthread_t mover;
	pthread_create(&mover, NULL, to_and_fro, NULL);
	long forks = 0;
	for (time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5); time(NULL) < end; forks++) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		*(volatile int *)home = 2;
		for (int n = 0; n < 20; n++)
			++*(volatile int *)(home + PAGE + 64);
		waitpid(child, NULL, 0);
	}
	done = 1;
	pthread_join(mover, NULL);
	fprintf(stderr, "%ld forks, %ld moves, %ld of one page alone, of which %ld had moved both\n", forks, moves, shorts, uncounted);
	printf("%ld astray\n", astray);
	return 0;
}
