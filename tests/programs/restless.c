/*
 * restless COUNT MIB: makes COUNT mappings of 25 pages and writes them; then fills MIB MiB while a thread throws away one
 * page again and again. At last it reads all of it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 25
#define PART 64 /* of a page is written: it is to grow fast */

static volatile int done;
static char *restless;

static char *map(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		exit(2);
	return p;
}

static void *throw_away(void *unused)
{
	while (!done) {
		if (madvise(restless, PAGE, MADV_DONTNEED) || *restless)
			exit(3);
		*restless = 1;
		usleep(100);
	}
	return unused;
}

static int byte(size_t n)
{
	return (int)(n % 251) + 1;
}

static size_t wrong(const char *p, size_t pages, size_t from)
{
	size_t found = 0;
	for (size_t n = 0; n < pages; n++)
		found += p[n * PAGE] != (char)byte(from + n) || p[n * PAGE + PART - 1] != (char)byte(from + n) || p[n * PAGE + PART];
	return found;
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 600, bad = 0;
	size_t pages = (argc > 2 ? strtoull(argv[2], NULL, 10) : 150) * 256;
	char **some = calloc(count, sizeof(*some)), *all = map(pages * PAGE);
	pthread_t thread;
	if (!some)
		return 2;
	for (size_t i = 0; i < count; i++) {
		some[i] = map((PAGES + 1) * PAGE) + PAGE;
		if (mprotect(some[i] - PAGE, PAGE, PROT_NONE)) /* so that the kernel joins none */
			return 2;
	}
	restless = map(256 << 20); /* below the others, which are registered after it */
	for (size_t i = 0; i < count; i++)
		for (size_t n = 0; n < PAGES; n++)
			memset(some[i] + n * PAGE, byte(i + n), PART);
	if (pthread_create(&thread, NULL, throw_away, NULL))
		return 2;
	for (size_t n = 0; n < pages; n++) {
		memset(all + n * PAGE, byte(n), PART);
		if (n % 256 == 0)
			usleep(200);
	}
	done = 1;
	pthread_join(thread, NULL);
	for (size_t i = 0; i < count; i++)
		bad += wrong(some[i], PAGES, i);
	bad += wrong(all, pages, 0);
	printf("restless: %s\n", bad ? "wrong" : "ok");
	return bad > 0;
}
