/* A program with its own memset and memcpy, as an instrumented or a tuned one has them, which look at memory of the
 * program. ownmem MIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static unsigned char *table;
static size_t bytes;
static volatile unsigned long calls;

static void look(void)
{
	if (table)
		calls += table[(calls++ * 40503u * 4096u) % bytes];
}

void *memset(void *to, int byte, size_t count)
{
	unsigned char *at = to;
	look();
	while (count--) {
		*at++ = (unsigned char)byte;
		__asm__ volatile("" ::: "memory");
	}
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t count)
{
	unsigned char *at = to;
	const unsigned char *source = from;
	look();
	while (count--) {
		*at++ = *source++;
		__asm__ volatile("" ::: "memory");
	}
	return to;
}

int main(int argc, char **argv)
{
	unsigned long sum = 0;
	bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 96) << 20;
	table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		return 2;
	for (size_t i = 0; i < bytes; i += 64)
		table[i] = (unsigned char)(i >> 12);
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < bytes; i += 4096)
			sum += table[i];
	printf("%lu\n", sum);
	return 0;
}
