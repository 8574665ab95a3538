/*
 * burst MIB [THREADS [fill]]: fresh memory, written from THREADS threads (2
 * unless given) as fast as they can, then read back. fill is same (memset of one
 * byte for each page) or text (memcpy of a compressible page).
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

struct part {
	pthread_t thread;
	unsigned char *at;
	size_t pages, first;
	int bad;
};

static int text;
static unsigned char page_text[PAGE];
static pthread_barrier_t start;

static unsigned char byte(size_t page)
{
	return (unsigned char)(1 + page % 251);
}

static void *fill(void *arg)
{
	struct part *p = arg;
	pthread_barrier_wait(&start);
	for (size_t i = 0; i < p->pages; i++) {
		unsigned char *at = p->at + i * PAGE;
		if (text) {
			memcpy(at, page_text, PAGE);
			memcpy(at + 128, &(size_t){ p->first + i }, sizeof(size_t));
		} else {
			memset(at, byte(p->first + i), PAGE);
		}
	}
	return NULL;
}

static void *check(void *arg)
{
	struct part *p = arg;
	unsigned char want[PAGE];
	memcpy(want, page_text, PAGE);
	for (size_t i = 0; i < p->pages && !p->bad; i++) {
		if (text)
			memcpy(want + 128, &(size_t){ p->first + i }, sizeof(size_t));
		else
			memset(want, byte(p->first + i), PAGE);
		if (memcmp(want, p->at + i * PAGE, PAGE)) {
			fprintf(stderr, "burst: FAIL page %zu at %p reads %02x, must be %02x\n", p->first + i,
				(void *)(p->at + i * PAGE), p->at[i * PAGE], want[0]);
			p->bad = 1;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 64, threads = argc > 2 ? strtoull(argv[2], NULL, 10) : 2;
	text = argc > 3 && !strcmp(argv[3], "text");
	size_t pages = mib * 256, each = threads ? pages / threads : 0;
	if (!each || threads > 64)
		return 2;
	for (size_t i = 0; i < PAGE; i++)
		page_text[i] = (unsigned char)("the quick brown page "[i % 21] + (i / 512));
	struct part parts[64] = { 0 };
	pthread_barrier_init(&start, NULL, (unsigned)threads);
	for (size_t t = 0; t < threads; t++) {
		parts[t].at = mmap(NULL, each * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		parts[t].pages = each;
		parts[t].first = t * each;
		if (parts[t].at == MAP_FAILED)
			return 2;
	}
	for (size_t t = 0; t < threads; t++)
		pthread_create(&parts[t].thread, NULL, fill, &parts[t]);
	for (size_t t = 0; t < threads; t++)
		pthread_join(parts[t].thread, NULL);
	int bad = 0;
	for (size_t t = 0; t < threads; t++)
		pthread_create(&parts[t].thread, NULL, check, &parts[t]);
	for (size_t t = 0; t < threads; t++) {
		pthread_join(parts[t].thread, NULL);
		bad |= parts[t].bad;
	}
	if (!bad)
		printf("burst: ok mib=%zu threads=%zu fill=%s\n", mib, threads, text ? "text" : "same");
	return bad;
}
