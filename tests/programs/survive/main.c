/*
 * survive MODE MIB: what has once cost neap a page, a process or its limit. Each mode fills memory,
 * does what it is named after, and looks at every page.
 */
#include "survive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

char *fresh(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	return at;
}

void fill(char *memory, size_t pages)
{
	uint64_t x = 88172645463325252ull;
	for (size_t page = 0; page < pages; page++) {
		uint64_t *words = (uint64_t *)(memory + page * PAGE);
		for (size_t i = 0; i < PAGE / 8; i++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			words[i] = x & 0xff;
		}
		words[0] = page + 1;
	}
}

size_t wrong(const char *memory, size_t pages)
{
	size_t bad = 0;
	for (size_t page = 0; page < pages; page++)
		bad += *(const volatile uint64_t *)(memory + page * PAGE) != page + 1;
	return bad;
}

int verdict(size_t bad, size_t pages)
{
	char line[80];
	int length = snprintf(line, sizeof line, "%zu of %zu pages wrong\n", bad, pages);
	if (write(1, line, (size_t)length) != length)
		return 2;
	return bad ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fputs("usage: survive sandbox-kill|sandbox-errno|vforked|heirs|orphans|moves|churn|husks|wiped|grows-locked|covered|holes|kept|carried|advised|children|shuffle|turns|cut|trapped|pieced MIB\n", stderr);
		return 2;
	}
	const char *mode = argv[1];
	size_t pages = strtoull(argv[2], NULL, 10) << 8;
	if (!strcmp(mode, "sandbox-kill"))
		return sandbox(pages, 1);
	if (!strcmp(mode, "sandbox-errno"))
		return sandbox(pages, 0);
	if (!strcmp(mode, "heirs"))
		return heirs(pages);
	if (!strcmp(mode, "vforked"))
		return vforked(pages);
	if (!strcmp(mode, "orphans"))
		return orphans(pages);
	if (!strcmp(mode, "moves"))
		return moves(pages);
	if (!strcmp(mode, "churn"))
		return churn(pages);
	if (!strcmp(mode, "husks"))
		return husks(pages);
	if (!strcmp(mode, "wiped"))
		return wiped(pages);
	if (!strcmp(mode, "grows-locked"))
		return grows_locked(pages);
	if (!strcmp(mode, "covered"))
		return covered(pages);
	if (!strcmp(mode, "holes"))
		return holes(pages);
	if (!strcmp(mode, "kept"))
		return kept(pages);
	if (!strcmp(mode, "advised"))
		return advised(pages);
	if (!strcmp(mode, "carried"))
		return carried(pages);
	if (!strcmp(mode, "children"))
		return children(pages);
	if (!strcmp(mode, "shuffle"))
		return shuffle(pages);
	if (!strcmp(mode, "turns"))
		return turns(pages);
	if (!strcmp(mode, "cut"))
		return cut(pages);
	if (!strcmp(mode, "trapped"))
		return trapped(pages);
	if (!strcmp(mode, "pieced"))
		return pieced(pages);
	fprintf(stderr, "survive: no mode %s\n", mode);
	return 2;
}
