/* Threads that change their mappings at the same time, each its own: the places that one leaves another takes. */
#include "survive.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define THREADS 4
#define PIECES 10
#define MOST 512
#define SECONDS 5

struct piece {
	char *at;
	size_t pages;
	uint64_t held[MOST]; /* what each page begins with: 0 if it was never written */
};

struct hand {
	struct piece pieces[PIECES];
	unsigned seed;
	size_t most, looked, bad;
	uint64_t next;
};

static unsigned below(struct hand *hand, size_t most)
{
	return (unsigned)rand_r(&hand->seed) % (unsigned)most;
}

static void put(struct hand *hand, struct piece *piece, size_t page)
{
	uint64_t word = ++hand->next * 2654435761u + hand->seed;
	volatile uint64_t *words = (volatile uint64_t *)(piece->at + page * PAGE);
	for (size_t i = 0; i < PAGE / 8; i += page % 3 ? PAGE / 8 : 8)
		words[i] = word;
	piece->held[page] = word;
}

static void look(struct hand *hand, struct piece *piece, size_t page)
{
	hand->looked++;
	hand->bad += *(volatile uint64_t *)(piece->at + page * PAGE) != piece->held[page];
}

static void map(struct hand *hand, struct piece *piece)
{
	piece->pages = 1 + below(hand, hand->most);
	piece->at = fresh(piece->pages * PAGE);
	for (size_t page = 0; page < piece->pages; page++) {
		piece->held[page] = 0;
		if (below(hand, 8))
			put(hand, piece, page);
	}
}

static void unmap(struct hand *hand, struct piece *piece)
{
	for (size_t page = 0; page < piece->pages; page++)
		look(hand, piece, page);
	munmap(piece->at, piece->pages * PAGE);
	piece->at = NULL;
}

/* Grows or shrinks, in place or elsewhere. */
static void resize(struct hand *hand, struct piece *piece)
{
	size_t pages = 1 + below(hand, hand->most);
	char *at = mremap(piece->at, piece->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);
	if (at == MAP_FAILED)
		return;
	for (size_t page = piece->pages; page < pages; page++)
		piece->held[page] = 0;
	piece->at = at;
	piece->pages = pages;
}

/* Moves over another piece, of which nothing stays. */
static void replace(struct hand *hand, struct piece *piece)
{
	struct piece *other = &hand->pieces[below(hand, PIECES)];
	if (other == piece || !other->at)
		return;
	size_t pages = 1 + below(hand, other->pages);
	if (pages < piece->pages)
		pages = piece->pages <= other->pages ? piece->pages : other->pages;
	char *at = mremap(piece->at, piece->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other->at);
	if (at != MAP_FAILED) {
		for (size_t page = piece->pages; page < pages; page++)
			piece->held[page] = 0;
		piece->at = at;
		piece->pages = pages;
		if (other->pages > pages)
			munmap(at + pages * PAGE, (other->pages - pages) * PAGE);
	}
	other->at = NULL;
}

/* Moves and leaves an empty mapping behind, for a moment. */
static void leave(struct hand *hand, struct piece *piece)
{
	size_t bytes = piece->pages * PAGE;
	char *at = mremap(piece->at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (at == MAP_FAILED)
		return;
	for (int i = 0; i < 3; i++) {
		hand->looked++;
		hand->bad += *(volatile uint64_t *)(piece->at + below(hand, piece->pages) * PAGE) != 0;
	}
	munmap(piece->at, bytes);
	piece->at = at;
}

static void *shuffles(void *arg)
{
	struct hand *hand = arg;
	for (time_t end = time(NULL) + SECONDS; time(NULL) < end;) {
		struct piece *piece = &hand->pieces[below(hand, PIECES)];
		unsigned choice = below(hand, 8);
		if (!piece->at)
			map(hand, piece);
		else if (choice == 0)
			unmap(hand, piece);
		else if (choice == 1)
			resize(hand, piece);
		else if (choice == 2)
			replace(hand, piece);
		else if (choice == 3)
			leave(hand, piece);
		else
			for (int i = 0; i < 20; i++) {
				look(hand, piece, below(hand, piece->pages));
				put(hand, piece, below(hand, piece->pages));
			}
	}
	for (int i = 0; i < PIECES; i++)
		if (hand->pieces[i].at)
			unmap(hand, &hand->pieces[i]);
	return NULL;
}

int shuffle(size_t pages)
{
	static struct hand hands[THREADS];
	pthread_t threads[THREADS];
	size_t looked = 0, bad = 0, most = 2 * pages / (THREADS * PIECES);
	for (int i = 0; i < THREADS; i++) {
		hands[i] = (struct hand){ .seed = (unsigned)time(NULL) * 31 + (unsigned)i };
		hands[i].most = most < MOST ? most : MOST;
		if (pthread_create(&threads[i], NULL, shuffles, &hands[i]))
			return 2;
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		looked += hands[i].looked;
		bad += hands[i].bad;
	}
	return verdict(bad, looked);
}
