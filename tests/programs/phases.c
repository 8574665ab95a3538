/*
 * phases KIND MIB ROUNDS: programs whose pages are in use for a while. `phases`: two halves of the memory take turns, each read and
 * written several times while the other rests. `burst`: a quarter is read and written all the time, and in each round as much
 * as the rest is written once and never read before the end. Prints how many words were wrong.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WORDS 512

static uint64_t *memory, wrong;

/* Half of a page is text that compresses, half is not. */
static void fill(uint64_t page, uint64_t round)
{
	uint64_t *at = memory + page * WORDS, noise = page * 0x9e3779b97f4a7c15 + round + 1;
	for (int i = 0; i < WORDS; i++) {
		noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
		at[i] = i < WORDS / 2 ? noise : page;
	}
	at[WORDS - 1] = page ^ round;
}

static void use(uint64_t page, uint64_t round)
{
	uint64_t *last = memory + page * WORDS + WORDS - 1;
	wrong += *last != (page ^ round);
	*last = page ^ (round + 1);
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: phases phases|burst MIB ROUNDS\n");
		return 2;
	}
	uint64_t pages = strtoull(argv[2], NULL, 10) * 256, rounds = strtoull(argv[3], NULL, 10);
	memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 3;
	if (!strcmp(argv[1], "burst")) {
		uint64_t hot = pages / 4, count = 0;
		for (uint64_t page = 0; page < pages; page++)
			fill(page, 0);
		for (uint64_t round = 1; round <= rounds; round++) {
			uint64_t cold = hot;
			madvise(memory + hot * WORDS, (pages - hot) * 4096, MADV_DONTNEED);
			for (int pass = 0; pass < 8; pass++, count++) {
				for (uint64_t page = 0; page < hot; page++)
					use(page, count);
				for (uint64_t end = cold + (pages - hot) / 8; cold < end; cold++)
					fill(cold, round);
			}
		}
		for (uint64_t page = hot; page < hot + (pages - hot) / 8 * 8; page++)
			use(page, rounds);
	} else {
		uint64_t half = pages / 2, counts[2] = { 0, 0 };
		for (uint64_t page = 0; page < pages; page++)
			fill(page, 0);
		for (uint64_t round = 0; round < rounds; round++)
			for (int pass = 0; pass < 6; pass++, counts[round % 2]++)
				for (uint64_t page = 0; page < half; page++)
					use(page + round % 2 * half, counts[round % 2]);
	}
	printf("%llu wrong\n", (unsigned long long)wrong);
	return wrong != 0;
}
