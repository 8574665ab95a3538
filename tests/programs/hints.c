// What a program says of its memory (madvise), and what is resident after that. Modes:
//   walk HOW      a buffer is filled that is HOW (normal, sequential, random, posix, raw, late) beside one that is not
//   cold HOW      of two buffers the one that came later is cold (libc, raw: not said to neap), and a third is filled
//   pageout HOW   a buffer is taken out (libc, process, stepwise)
//   willneed HOW  a buffer that was taken out is to come back (libc, posix)
//   shared        a buffer that a child has, too, is taken out
//   answers       what the calls return, also for what is wrong
//   flood COUNT   so many calls of each
// Each prints lines "NAME NUMBER"; numbers are percent of a buffer that is resident. What it reads back is checked.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#define PAGE 4096UL
#define MIB (1UL << 20)

ssize_t process_madvise(int, const struct iovec *, size_t, int, unsigned) __attribute__((weak));

static void die(const char *what)
{
	perror(what);
	exit(3);
}

static char *map(size_t bytes)
{
	// With a page between it and the next one, so that they stay two mappings.
	char *p = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || mprotect(p + bytes, PAGE, PROT_NONE))
		die("mmap");
	return p;
}

static void write_page(char *p, uint64_t number)
{
	uint64_t *words = (uint64_t *)p;
	for (size_t i = 0; i < PAGE / 8; i++)
		words[i] = i % 8 ? number : number * 0x9e3779b97f4a7c15UL + i;
}

static void check_page(const char *p, uint64_t number)
{
	const uint64_t *words = (const uint64_t *)p;
	for (size_t i = 0; i < PAGE / 8; i += 7)
		if (words[i] != (i % 8 ? number : number * 0x9e3779b97f4a7c15UL + i)) {
			printf("page %lu is wrong\n", (unsigned long)number);
			exit(4);
		}
}

static void fill(char *p, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE)
		write_page(p + at, (uintptr_t)(p + at) / PAGE);
}

static void check(const char *p, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE)
		check_page(p + at, (uintptr_t)(p + at) / PAGE);
}

static unsigned resident(char *p, size_t bytes)
{
	size_t pages = bytes / PAGE, there = 0;
	unsigned char *vec = malloc(pages);
	if (!vec || mincore(p, bytes, vec))
		die("mincore");
	for (size_t i = 0; i < pages; i++)
		there += vec[i] & 1;
	free(vec);
	return (unsigned)(there * 100 / pages);
}

static void say(const char *name, long number)
{
	printf("%s %ld\n", name, number);
	fflush(stdout);
}

static void rest(long millis)
{
	struct timespec time = { millis / 1000, millis % 1000 * 1000000 };
	nanosleep(&time, NULL);
}

static void must(int result, const char *what)
{
	if (result)
		die(what);
}

static int raw(char *p, size_t bytes, int advice)
{
	return (int)syscall(SYS_madvise, p, bytes, advice);
}

static void walk(const char *how)
{
	size_t hot = 32 * MIB, walked = 64 * MIB, first = 24 * MIB;
	char *kept = map(hot), *p = map(walked);
	int late = !strcmp(how, "late");
	if (!strcmp(how, "sequential"))
		must(madvise(p, walked, MADV_SEQUENTIAL), "madvise");
	else if (!strcmp(how, "random"))
		must(madvise(p, walked, MADV_RANDOM), "madvise");
	else if (!strcmp(how, "posix"))
		must(posix_madvise(p, walked, POSIX_MADV_SEQUENTIAL), "posix_madvise");
	else if (!strcmp(how, "raw"))
		must(raw(p, walked, MADV_SEQUENTIAL), "madvise");
	fill(kept, hot);
	fill(p, first);
	if (late)
		must(madvise(p, walked, MADV_SEQUENTIAL), "madvise");
	if (!strcmp(how, "raw")) {
		// Of it only the flags of the mapping tell.
		fill(p + first, 8 * MIB);
		rest(3000);
	}
	fill(p + first, walked - first);
	say("kept", resident(kept, hot));
	say("walked", resident(p, walked));
	for (int round = 0; round < 2; round++)
		check(p, walked);
	say("kept-later", resident(kept, hot));
	check(kept, hot);
	must(madvise(p, walked, MADV_NORMAL), "madvise");
	// From now on it is as any other, and what is not used gives way to it.
	for (int round = 0; round < 30 && resident(kept, hot) > 50; round++)
		check(p, 44 * MIB);
	say("kept-at-last", resident(kept, hot));
	check(kept, hot);
}

static void cold(const char *how)
{
	size_t bytes = 26 * MIB, more = 20 * MIB;
	char *used = map(bytes), *cold = map(bytes), *last = map(more);
	// Pages that are found in order of address leave so, unless something else is known of them.
	if (cold < used) {
		char *higher = used;
		used = cold;
		cold = higher;
	}
	fill(used, bytes);
	fill(cold, bytes);
	rest(300);
	must(!strcmp(how, "raw") ? raw(cold, bytes, MADV_COLD) : madvise(cold, bytes, MADV_COLD), "madvise");
	fill(last, more);
	say("used", resident(used, bytes));
	say("cold", resident(cold, bytes));
	check(cold, bytes);
	check(used, bytes);
	check(last, more);
}

/// Two buffers that nearly fill the limit, so that memory is managed. The second is the first of `kept`.
static char *two(size_t bytes, char **kept, size_t rest_bytes)
{
	char *p = map(bytes);
	*kept = map(rest_bytes);
	fill(p, bytes);
	fill(*kept, rest_bytes);
	rest(300);
	return p;
}

static long say_of_self(char *p, size_t bytes, int advice)
{
	struct iovec parts[2] = { { p, bytes / 2 }, { p + bytes / 2, bytes - bytes / 2 } };
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	long done = process_madvise ? process_madvise(pidfd, parts, 2, advice, 0)
				    : syscall(SYS_process_madvise, pidfd, parts, 2, advice, 0);
	close(pidfd);
	return done;
}

static void pageout(const char *how)
{
	size_t bytes = 24 * MIB, others = 30 * MIB;
	char *kept, *p = two(bytes, &kept, others);
	if (!strcmp(how, "process")) {
		if (say_of_self(p, bytes, MADV_PAGEOUT) != (long)bytes)
			die("process_madvise");
		// It is told after the call.
		for (int i = 0; i < 100 && resident(p, bytes) > 5; i++)
			rest(50);
	} else if (!strcmp(how, "stepwise")) {
		for (size_t at = 0; at < bytes; at += 16 * PAGE)
			must(madvise(p + at, 16 * PAGE, MADV_PAGEOUT), "madvise");
		for (int i = 0; i < 100 && resident(p, bytes) > 5; i++)
			rest(50);
	} else {
		must(madvise(p, bytes, MADV_PAGEOUT), "madvise");
	}
	say("taken", resident(p, bytes));
	say("kept", resident(kept, others));
	check(p, bytes);
	check(kept, others);
}

static void willneed(const char *how)
{
	size_t bytes = 20 * MIB, others = 32 * MIB;
	char *kept, *p = two(bytes, &kept, others);
	must(madvise(p, bytes, MADV_PAGEOUT), "madvise");
	say("taken", resident(p, bytes));
	if (strcmp(how, "none"))
		must(!strcmp(how, "posix") ? posix_madvise(p, bytes, POSIX_MADV_WILLNEED) : madvise(p, bytes, MADV_WILLNEED),
		     "madvise");
	for (int i = 0; i < 60 && resident(p, bytes) < 95; i++)
		rest(50);
	say("back", resident(p, bytes));
	check(p, bytes);
	check(kept, others);
}

static void shared(void)
{
	size_t bytes = 16 * MIB, others = 34 * MIB;
	char *kept, *p = two(bytes, &kept, others);
	int go[2], done[2];
	if (pipe(go) || pipe(done))
		die("pipe");
	pid_t child = fork();
	if (child < 0)
		die("fork");
	char byte = 0;
	if (!child) {
		must(write(done[1], &byte, 1) != 1, "write");
		must(read(go[0], &byte, 1) != 1, "read");
		check(p, bytes);
		_exit(0);
	}
	must(read(done[0], &byte, 1) != 1, "read");
	rest(300);
	unsigned before = resident(p, bytes);
	must(madvise(p, bytes, MADV_PAGEOUT), "madvise");
	say("shared", before > 0 ? resident(p, bytes) * 100 / before : 100);
	must(write(go[1], &byte, 1) != 1, "write");
	int status = 0;
	waitpid(child, &status, 0);
	say("child", status);
	check(p, bytes);
	check(kept, others);
}

static void answer(const char *name, long result, int error)
{
	printf("%s %ld %d\n", name, result, result < 0 ? error : 0);
}

#define TRY(name, call) do { errno = 0; long r = (long)(call); answer(name, r, errno); } while (0)

static void answers(void)
{
	size_t bytes = 24 * MIB, others = 30 * MIB;
	char *kept, *p = two(bytes, &kept, others);
	static const int all[] = { MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_COLD, MADV_PAGEOUT, 77 };
	char *hole = map(8 * PAGE), *locked = map(8 * PAGE), *text = map(8 * PAGE);
	mlock(locked, 8 * PAGE);
	mprotect(text, 8 * PAGE, PROT_READ);
	char *both = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = open("/proc/self/exe", O_RDONLY);
	char *file = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	// Last: another mapping could come to that place.
	munmap(hole + 2 * PAGE, 2 * PAGE);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		int a = all[i];
		printf("advice %d\n", a);
		TRY("all", madvise(p, bytes, a));
		TRY("part", madvise(p + 3 * PAGE, 5 * PAGE + 7, a));
		TRY("none", madvise(p, 0, a));
		TRY("odd", madvise(p + 1, PAGE, a));
		TRY("far", madvise(p, SIZE_MAX, a));
		TRY("wraps", madvise(p, SIZE_MAX - (size_t)p, a));
		TRY("hole", madvise(hole, 8 * PAGE, a));
		TRY("gone", madvise(hole + 2 * PAGE, PAGE, a));
		TRY("null", madvise(NULL, PAGE, a));
		TRY("locked", madvise(locked, 8 * PAGE, a));
		TRY("read-only", madvise(text, 8 * PAGE, a));
		TRY("shared", madvise(both, 8 * PAGE, a));
		TRY("file", madvise(file, 2 * PAGE, a));
		printf("posix %d %d\n", posix_madvise(p, bytes, a), posix_madvise(hole, 8 * PAGE, a));
		struct iovec parts[2] = { { p, 8 * PAGE }, { hole, 8 * PAGE } };
		TRY("process", syscall(SYS_process_madvise, pidfd, parts, 1, a, 0));
		if (process_madvise) {
			TRY("process", process_madvise(pidfd, parts, 1, a, 0));
			TRY("parts", process_madvise(pidfd, parts, 2, a, 0));
			TRY("nobody", process_madvise(-1, parts, 1, a, 0));
			TRY("no-pidfd", process_madvise(fd, parts, 1, a, 0));
			TRY("no-parts", process_madvise(pidfd, NULL, 1, a, 0));
			TRY("nothing", process_madvise(pidfd, parts, 0, a, 0));
			TRY("flags", process_madvise(pidfd, parts, 1, a, 1));
		}
	}
	printf("posix-dontneed %d\n", posix_madvise(p, bytes, 4));
	check(p, bytes);
	check(kept, others);
}

static void flood(long count)
{
	size_t bytes = 24 * MIB, others = 30 * MIB, pages = bytes / PAGE;
	char *kept, *p = two(bytes, &kept, others);
	static const int all[] = { MADV_NORMAL, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_COLD, MADV_PAGEOUT };
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		for (long n = 0; n < count; n++) {
			size_t at = (size_t)n % 2 ? (size_t)n * 7919 % pages : (size_t)n % pages;
			must(madvise(p + at * PAGE, PAGE, all[i]), "madvise");
		}
	must(madvise(p, bytes, MADV_NORMAL), "madvise");
	check(p, bytes);
	check(kept, others);
	say("calls", count * 5);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "", *how = argc > 2 ? argv[2] : "";
	if (!strcmp(mode, "walk"))
		walk(how);
	else if (!strcmp(mode, "cold"))
		cold(how);
	else if (!strcmp(mode, "pageout"))
		pageout(how);
	else if (!strcmp(mode, "willneed"))
		willneed(how);
	else if (!strcmp(mode, "shared"))
		shared();
	else if (!strcmp(mode, "answers"))
		answers();
	else if (!strcmp(mode, "flood"))
		flood(atol(how));
	else
		return 2;
	return 0;
}
