/*
 * killedfork MIB SECONDS: again and again, processes that fork while another thread of theirs moves memory to and fro are
 * killed. Each process has MIB MiB, which it shares with its parent. Its children read all that they find, at either place, until a byte is wrong.
 * Prints how many words were wrong, and how many children came to an end of their own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS 512
#define PARTS 64

static uint64_t pages, *memory, *other;
/* Shared by all: wrong words, children that came to their end, and which process is to be killed. */
static volatile uint64_t *shared;

/* One part of the memory to the other place, and back. */
static void *move(void *unused)
{
	uint64_t part = pages / PARTS, bytes = part * 4096;
	for (uint64_t n = 0;; n = (n + 1) % PARTS) {
		void *here = memory + n * part * WORDS, *there = other + n * part * WORDS;
		syscall(SYS_mremap, here, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, there);
		syscall(SYS_mremap, there, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, here);
		usleep(1000);
	}
	return unused;
}

/* It has no other thread: a part is at one place or the other. */
static void look(void)
{
	uint64_t part = pages / PARTS, wrong = 0;
	for (uint64_t n = 0; n < PARTS; n++) {
		unsigned char vector;
		uint64_t *at = memory + n * part * WORDS;
		if (mincore(at, 4096, &vector) != 0)
			at = other + n * part * WORDS;
		for (uint64_t page = 0; page < part; page++)
			wrong += at[page * WORDS] != n * part + page + 1;
	}
	__atomic_add_fetch(&shared[0], wrong, __ATOMIC_RELAXED);
	__atomic_add_fetch(&shared[1], 1, __ATOMIC_RELAXED);
}

static void middle(void)
{
	pthread_t thread;
	for (uint64_t page = 0; page < pages; page++)
		memory[page * WORDS] = page + 1;
	if (pthread_create(&thread, NULL, move, NULL) != 0)
		_exit(3);
	for (;;) {
		pid_t child = fork();
		if (child == 0) {
			look();
			_exit(0);
		}
		shared[2]++;
		while (child > 0 && waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (shared[2] % 2)
			waitpid(child, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	pages = (argc > 1 ? strtoull(argv[1], NULL, 10) : 48) * 256;
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 5);
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
	other = mmap(NULL, pages * 4096, PROT_NONE, flags, -1, 0);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || other == MAP_FAILED || shared == MAP_FAILED)
		return 2;
	munmap(other, pages * 4096);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	srand(argc > 3 ? atoi(argv[3]) : 1);
	while (time(NULL) < end) {
		uint64_t began = shared[2];
		pid_t child = fork();
		if (child < 0)
			return 3;
		if (child == 0)
			middle();
		/* It has filled its memory once it has forked. */
		while (shared[2] == began && waitpid(child, NULL, WNOHANG) == 0)
			usleep(1000);
		usleep(rand() % 100000);
		kill(child, SIGKILL);
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
	fprintf(stderr, "%llu forks\n", (unsigned long long)shared[2]);
	printf("%llu wrong, %s\n", (unsigned long long)shared[0], shared[1] ? "some came to their end" : "none came to its end");
	return shared[0] != 0;
}
