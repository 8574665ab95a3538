/* What a page must hold, from its shadow alone. */
#include "torture.h"

#define MAGIC 0x746f727475726521ull /* "torture!" */

enum body { RANDOM, TEXT, SAME, SPARSE, HALF };

static enum body body_of(uint64_t h)
{
	static const uint8_t bodies[8] = { RANDOM, TEXT, TEXT, TEXT, SAME, SPARSE, HALF, TEXT };
	return bodies[h & 7];
}

static void random_words(uint64_t *out, uint32_t from, uint32_t to, uint64_t h)
{
	for (uint32_t i = from; i < to; i++) {
		h += 0x9e3779b97f4a7c15ull;
		uint64_t x = h * 0xbf58476d1ce4e5b9ull;
		out[i] = x ^ (x >> 29);
	}
}

static void text_words(uint64_t *out, uint32_t from, uint32_t to, uint64_t h)
{
	static const char text[16][9] = { "the page", "  is out", "  is in ", " of the ", "memory, ", "swapped ",
		"folio to", "kept by ", "0000000a", "00000007", "[1, 2, 3", "None,   ", "{'key': ", "true};\n ", "\0\0\0\0\0\0\0\1",
		"\0\0\0\0\0\0\0" };
	uint64_t bits = 0;
	for (uint32_t i = from; i < to; i++) {
		if ((i & 15) == 0 || i == from)
			bits = mix(h + i);
		memcpy(&out[i], text[bits & 15], 8);
		bits >>= 4;
	}
}

static uint64_t checksum(const uint64_t *w)
{
	uint64_t a = 1, b = 2;
	for (uint32_t i = 8; i < WORDS; i += 2) {
		a = (a ^ w[i]) * 0x9fb21c651e98df25ull;
		b = (b ^ w[i + 1]) * 0xd6e8feb86659fd93ull;
	}
	return mix(a ^ (b >> 7));
}

/* The page's words. as_zero: as after a discard, with the poked word kept. */
void content(const struct shadow *s, uint64_t *out, int as_zero)
{
	if (as_zero || s->state == P_ZERO) {
		memset(out, 0, PAGE);
	} else {
		uint64_t h = mix(G->seed ^ mix(s->ident) ^ ((uint64_t)s->version << 32));
		enum body body = body_of(h);
		if (body == SAME) {
			/* every fourth is a page of written zeros */
			uint64_t w = (h & 0x300) ? h : 0;
			for (uint32_t i = 0; i < WORDS; i++)
				out[i] = w;
		} else {
			if (body == RANDOM)
				random_words(out, 8, WORDS, h);
			else if (body == TEXT)
				text_words(out, 8, WORDS, h);
			else
				memset(out + 8, 0, PAGE - 64);
			if (body == HALF) {
				random_words(out, 8, WORDS / 2, h);
				text_words(out, WORDS / 2, WORDS, h);
			}
			if (body == SPARSE)
				for (uint32_t i = 0; i < 4; i++)
					out[8 + ((h >> (8 * i + 8)) & 0xff)] = mix(h + i);
			out[0] = MAGIC;
			out[1] = G->seed;
			out[2] = s->ident;
			out[3] = s->version;
			out[4] = checksum(out);
			out[5] = body;
			out[6] = h;
			out[7] = 0;
		}
	}
	if (s->poke)
		out[POKE_WORD] = s->poke;
}

void fill_page(const struct shadow *s, char *page)
{
	content(s, (uint64_t *)(void *)page, 0);
}

int page_ok(const struct shadow *s, const char *page)
{
	uint64_t want[WORDS];
	content(s, want, 0);
	if (!memcmp(want, page, PAGE))
		return 1;
	if (s->state != P_FREED)
		return 0;
	content(s, want, 1);
	return !memcmp(want, page, PAGE);
}

int page_zero(const char *page)
{
	const uint64_t *w = (const uint64_t *)(const void *)page;
	uint64_t any = 0;
	for (uint32_t i = 0; i < WORDS; i++)
		any |= w[i];
	return any == 0;
}
