/*
 * errands MIB: much of what makes neap work, in little time, each byte checked. Memory is filled, read in two orders,
 * written again, moved, thrown away, shared with a forked child and read by threads; then the program executes itself.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define WORDS (PAGE / 8)

static uint64_t *memory, pages;
static uint8_t *version;

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Of eight pages one does not compress, one is of one word; the others compress well. Version 0 is empty. */
static uint64_t word(uint64_t page, uint64_t i)
{
	uint64_t v = version[page];
	if (!v)
		return 0;
	if (page % 8 == 3)
		return mix((page * 256 + v) * WORDS + i + 1);
	if (page % 8 == 5)
		return page * 256 + v;
	return i & 1 ? 0x2020202064726f77ull + v : (page * 2654435761u) ^ (i >> 3);
}

static void fill(uint64_t page)
{
	version[page]++;
	for (uint64_t i = 0; i < WORDS; i++)
		memory[page * WORDS + i] = word(page, i);
}

static void check(uint64_t page, const char *when)
{
	for (uint64_t i = 0; i < WORDS; i++)
		if (memory[page * WORDS + i] != word(page, i)) {
			fprintf(stderr, "errands: WRONG %s: page %llu word %llu: %#llx, must be %#llx\n", when,
				(unsigned long long)page, (unsigned long long)i,
				(unsigned long long)memory[page * WORDS + i], (unsigned long long)word(page, i));
			_exit(1);
		}
}

static void check_all(const char *when, uint64_t stride)
{
	for (uint64_t n = 0; n < pages; n++)
		check(n * stride % pages, when);
}

static void *reads(void *part)
{
	for (uint64_t page = (uintptr_t)part; page < pages; page += 2)
		check(page, "in a thread");
	return NULL;
}

static void in_threads(void)
{
	pthread_t threads[2];
	for (uintptr_t i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, reads, (void *)i))
			exit(2);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void in_a_child(void)
{
	fflush(NULL);
	pid_t child = fork();
	if (child < 0)
		exit(2);
	if (!child) {
		check_all("in a child", 7919);
		for (uint64_t page = 0; page < pages; page += 3)
			fill(page);
		check_all("in a child that writes", 1);
		_exit(0);
	}
	for (uint64_t page = 1; page < pages; page += 5)
		fill(page);
	int status;
	if (waitpid(child, &status, 0) != child || status) {
		fprintf(stderr, "errands: a child ended with status %#x\n", status);
		exit(WIFSIGNALED(status) ? 3 : 1);
	}
	check_all("after a child", 1);
}

static void move(void)
{
	uint64_t len = pages * PAGE;
	void *to = mremap(memory, len, len + 64 * PAGE, MREMAP_MAYMOVE);
	if (to == MAP_FAILED)
		exit(2);
	memory = to;
	check_all("after a move", 3);
}

static void throw_away(void)
{
	uint64_t from = pages / 4, count = pages / 8;
	madvise(memory + from * WORDS, count * PAGE, MADV_DONTNEED);
	memset(version + from, 0, count);
	check_all("after a discard", 1);
	for (uint64_t page = from; page < from + count; page += 2)
		fill(page);
}

int main(int argc, char **argv)
{
	uint64_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 16;
	pages = mib * 256 + 1; /* odd, and no multiple of a stride */
	version = calloc(pages, 1);
	memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!version || memory == MAP_FAILED)
		return 2;
	for (uint64_t page = 0; page < pages; page++)
		fill(page);
	check_all("in order", 1);
	for (uint64_t page = 0; page < pages; page += 4)
		fill(page);
	check_all("at random", 7919);
	throw_away();
	in_a_child();
	move();
	in_threads();
	if (argc > 2) {
		puts("errands: ok");
		return 0;
	}
	execl(argv[0], argv[0], argv[1], "again", NULL);
	return 2;
}
