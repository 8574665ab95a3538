/* Threads that change mappings at the same time. */
#include "survive.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, SECONDS = 4 };

static volatile int stop;

/* A window that slides: grows at its end, which moves it to where the kernel finds room, perhaps
 * where another thread's was a moment ago; loses its first page. Every page knows its number. */
static void *slide(void *argument)
{
	uint64_t id = (uint64_t)(uintptr_t)argument >> 32, first = 0;
	size_t pages = (uint32_t)(uintptr_t)argument;
	unsigned seed = (unsigned)id;
	char *at = fresh(pages * PAGE);
	for (size_t i = 0; i < pages; i++)
		*(uint64_t *)(at + i * PAGE) = id << 48 | i;
	while (!stop) {
		char *to = mremap(at, pages * PAGE, (pages + 1) * PAGE, MREMAP_MAYMOVE);
		if (to == MAP_FAILED) {
			perror("mremap");
			exit(3);
		}
		at = to;
		*(uint64_t *)(at + pages * PAGE) = id << 48 | (first + pages);
		munmap(at, PAGE);
		at += PAGE, first++;
		for (int look = 0; look < 4; look++) {
			size_t i = (size_t)rand_r(&seed) % pages;
			uint64_t got = *(volatile uint64_t *)(at + i * PAGE), want = id << 48 | (first + i);
			if (got != want) {
				printf("page %zu: %#llx, not %#llx\n", i, (unsigned long long)got, (unsigned long long)want);
				stop = 1;
				return (void *)1;
			}
		}
	}
	return NULL;
}

int moves(size_t pages)
{
	pthread_t threads[THREADS];
	for (uint64_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, slide, (void *)(uintptr_t)((i + 1) << 32 | pages / THREADS));
	struct timespec pause = {0, 10000000};
	for (int i = 0; i < SECONDS * 100 && !stop; i++)
		nanosleep(&pause, NULL);
	stop = 1;
	size_t bad = 0;
	for (int i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		bad += result != NULL;
	}
	return verdict(bad, THREADS);
}

static void *come_and_go(void *none)
{
	while (!stop) {
		char *at[16];
		for (size_t i = 0; i < 16; i++)
			*(at[i] = fresh((i + 1) << 18)) = 1;
		for (size_t i = 0; i < 16; i++)
			munmap(at[i], (i + 1) << 18);
	}
	return none;
}

/* Short-lived mappings beside a lot of memory; then one large mapping over the same addresses. */
int churn(size_t pages)
{
	char *memory = fresh(pages * PAGE);
	fill(memory, pages);
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, come_and_go, NULL);
	sleep(2);
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	char *more = fresh(2 * pages * PAGE);
	for (size_t page = 0; page < 2 * pages; page++)
		memset(more + page * PAGE, (int)page, 64);
	return verdict(wrong(memory, pages), pages);
}

/* Mappings that stay empty where another moved away (MREMAP_DONTUNMAP), are unmapped later, and followed
 * by new ones at the same place. */
int husks(size_t pages)
{
	enum { HUSK = 256, ROUNDS = 8 };
	size_t bad = 0, len = HUSK * PAGE;
	char *memory = fresh(pages * PAGE), *at = fresh(len);
	fill(memory, pages);
	for (int round = 0; round < ROUNDS; round++) {
		fill(at, HUSK);
		char *to = mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
		if (to == MAP_FAILED) {
			perror("mremap");
			exit(77);
		}
		for (size_t i = 0; i < HUSK; i += 2)
			bad += *(volatile uint64_t *)(at + i * PAGE) != 0;
		usleep(150000); /* neap looks for mappings meanwhile */
		munmap(at, len);
		char *newcomer = mmap(at, len, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (newcomer != at) {
			perror("mmap");
			exit(77);
		}
		fill(newcomer, HUSK);
		bad += wrong(memory, pages) + wrong(newcomer, HUSK) + wrong(to, HUSK);
		munmap(to, len);
	}
	return verdict(bad, pages);
}

/* What stayed behind a move is partly covered by another mapping that moves there, and then all of it is
 * unmapped and followed by new memory. */
int covered(size_t pages)
{
	enum { HUSK = 256, ROUNDS = 8 };
	size_t bad = 0, len = HUSK * PAGE;
	char *memory = fresh(pages * PAGE), *at = fresh(len);
	fill(memory, pages);
	for (int round = 0; round < ROUNDS; round++) {
		char *other = fresh(len / 2);
		fill(at, HUSK), fill(other, HUSK / 2);
		char *to = mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
		if (to == MAP_FAILED ||
		    mremap(other, len / 2, len / 2, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at) {
			perror("mremap");
			exit(77);
		}
		munmap(at, len);
		char *newcomer = mmap(at, len, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (newcomer != at) {
			perror("mmap");
			exit(77);
		}
		fill(newcomer, HUSK);
		bad += wrong(memory, pages) + wrong(newcomer, HUSK) + wrong(to, HUSK);
		munmap(to, len);
	}
	return verdict(bad, pages);
}

/* Mappings that grow, are written to in what is new, and will be wiped in forked children from then on. */
int wiped(size_t pages)
{
	enum { MANY = 64, OLD = 64, GROWN = 96 };
	size_t bad = 0;
	char *memory = fresh(pages * PAGE), *at[MANY];
	for (int i = 0; i < MANY; i++) {
		at[i] = fresh(OLD * PAGE);
		fill(at[i], OLD);
	}
	fill(memory, pages);
	usleep(300000); /* neap looks for mappings meanwhile */
	for (int i = 0; i < MANY; i++) {
		at[i] = mremap(at[i], OLD * PAGE, GROWN * PAGE, MREMAP_MAYMOVE);
		if (at[i] == MAP_FAILED) {
			perror("mremap");
			exit(77);
		}
		fill(at[i], GROWN);
		if (madvise(at[i] + OLD * PAGE, (GROWN - OLD) * PAGE, MADV_WIPEONFORK)) {
			perror("madvise");
			exit(77);
		}
	}
	bad += wrong(memory, pages) + wrong(memory, pages);
	for (int generation = 0; generation < 2; generation++) {
		pid_t child = fork();
		if (child < 0) {
			perror("fork");
			exit(77);
		}
		if (child > 0) {
			int status;
			waitpid(child, &status, 0);
			if (generation > 0)
				_exit(bad || status);
			for (int i = 0; i < MANY; i++)
				bad += wrong(at[i], GROWN);
			return verdict(bad + (status != 0), pages);
		}
		bad = 0;
		for (int i = 0; i < MANY; i++)
			for (size_t page = OLD; page < GROWN; page++) {
				volatile uint64_t *word = (uint64_t *)(at[i] + page * PAGE);
				bad += *word != 0;
				*word = page;
			}
		bad += wrong(memory, pages); /* all that leaves memory, leaves */
	}
	_exit(bad != 0);
}

/* Locked mappings that grow where they must move: the kernel fills what is new before it tells of the move. */
int grows_locked(size_t pages)
{
	enum { MANY = 32, OLD = 2, GROWN = 5 };
	size_t bad = 0;
	char *memory = fresh(pages * PAGE), *at[MANY];
	for (int i = 0; i < MANY; i++) {
		at[i] = fresh((OLD + 1) * PAGE);
		fill(at[i], OLD);
		/* Nothing that could be joined, so that there is no room to grow. */
		mprotect(at[i] + OLD * PAGE, PAGE, PROT_NONE);
	}
	fill(memory, pages);
	usleep(300000); /* neap looks for mappings meanwhile */
	for (int i = 0; i < MANY; i++) {
		if (mlock(at[i], OLD * PAGE)) {
			perror("mlock");
			exit(77);
		}
		char *to = mremap(at[i], OLD * PAGE, GROWN * PAGE, MREMAP_MAYMOVE);
		if (to == MAP_FAILED) {
			perror("mremap");
			exit(77);
		}
		at[i] = to;
		bad += wrong(to, OLD);
		fill(to, GROWN);
	}
	bad += wrong(memory, pages) + wrong(memory, pages);
	for (int i = 0; i < MANY; i++) {
		munlock(at[i], GROWN * PAGE);
		usleep(20000);
		bad += wrong(at[i], GROWN);
	}
	usleep(200000);
	for (int i = 0; i < MANY; i++) {
		char *to = mremap(at[i], GROWN * PAGE, 2 * GROWN * PAGE, MREMAP_MAYMOVE);
		if (to == MAP_FAILED)
			bad++;
		else
			bad += wrong(to, GROWN);
	}
	return verdict(bad + wrong(memory, pages), pages);
}
