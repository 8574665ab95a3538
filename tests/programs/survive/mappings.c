/* Threads that change mappings at the same time. */
#include "survive.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
