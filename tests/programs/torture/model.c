/* Regions and their shadow; the owner thread alone changes either. */
#include "torture.h"

struct shadow *shadow_of(const struct region *r)
{
	return shadows + ((size_t)me->id * MAX_REGIONS + r->slot) * G->max_pages;
}

struct region *region_new(char *addr, uint32_t pages, uint32_t prot, enum kind kind)
{
	for (uint32_t i = 0; i < MAX_REGIONS; i++) {
		struct region *r = &me->regions[i];
		if (r->used)
			continue;
		*r = (struct region){ .addr = addr, .pages = pages, .prot = prot, .kind = kind, .used = 1, .slot = i };
		struct shadow *s = shadow_of(r);
		for (uint32_t p = 0; p < pages; p++)
			s[p] = (struct shadow){ .ident = me->next_ident++ };
		me->pages += pages;
		return r;
	}
	return NULL;
}

struct region *pick_any(void)
{
	uint32_t n = 0, at = below(MAX_REGIONS);
	for (; n < MAX_REGIONS; n++, at = (at + 1) % MAX_REGIONS)
		if (me->regions[at].used)
			return &me->regions[at];
	return NULL;
}

void make_rw(struct region *r)
{
	uint32_t rw = PROT_READ | PROT_WRITE | (r->kind == K_EXEC ? PROT_EXEC : 0);
	if (r->prot == rw)
		return;
	if (mprotect(r->addr, (size_t)r->pages * PAGE, (int)rw))
		die("mprotect back to read-write: %s", strerror(errno));
	r->prot = rw;
}

struct region *pick(void)
{
	struct region *r = pick_any();
	if (r)
		make_rw(r);
	return r;
}

/* A part of the region: 1..max pages. */
void span(const struct region *r, uint32_t max, uint32_t *first, uint32_t *n)
{
	*first = below(r->pages);
	uint32_t room = r->pages - *first;
	*n = 1 + below(room < max ? room : max);
}

void next_version(struct region *r, uint32_t i)
{
	struct shadow *s = shadow_of(r) + i;
	s->version++;
	s->poke = 0;
	s->state = P_DATA;
}

void write_pages(struct region *r, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++) {
		next_version(r, i);
		fill_page(shadow_of(r) + i, r->addr + (size_t)i * PAGE);
	}
	me->written += n;
}

void poke_page(struct region *r, uint32_t i)
{
	struct shadow *s = shadow_of(r) + i;
	volatile uint64_t *w = (volatile uint64_t *)(void *)(r->addr + (size_t)i * PAGE);
	s->poke = s->poke * 5 + 1 + below(1000);
	w[POKE_WORD] = s->poke;
}

void verify_pages(const struct region *r, uint32_t first, uint32_t n)
{
	const struct shadow *s = shadow_of(r);
	for (uint32_t i = first; i < first + n; i++)
		if (!page_ok(s + i, r->addr + (size_t)i * PAGE))
			die_page(s + i, r->addr + (size_t)i * PAGE, "wrong bytes");
	me->verified += n;
}

void set_zero(struct region *r, uint32_t first, uint32_t n)
{
	struct shadow *s = shadow_of(r);
	for (uint32_t i = first; i < first + n; i++) {
		s[i].state = P_ZERO;
		s[i].poke = 0;
	}
}

void forget(struct region *r)
{
	me->pages -= r->pages;
	r->used = 0;
}

/* Pages first..first+n are unmapped; what is left becomes one or two regions. */
void cut(struct region *r, uint32_t first, uint32_t n)
{
	uint32_t tail = r->pages - first - n;
	struct shadow *s = shadow_of(r);
	me->pages -= n;
	if (first == 0 && tail == 0) {
		r->used = 0;
		return;
	}
	if (first == 0) {
		memmove(s, s + n, tail * sizeof *s);
		r->addr += (size_t)n * PAGE;
		r->pages = tail;
		return;
	}
	r->pages = first;
	if (!tail)
		return;
	char *addr = r->addr + (size_t)(first + n) * PAGE;
	me->pages -= tail;
	struct region *t = region_new(addr, tail, r->prot, r->kind);
	if (t) {
		t->frag = r->frag;
		memcpy(shadow_of(t), s + first + n, tail * sizeof *s);
	} else if (munmap(addr, (size_t)tail * PAGE)) {
		die("munmap: %s", strerror(errno));
	}
}

void verify_consts(uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++)
		if (!page_ok(&G->const_shadow[i % CONST_PAGES], const_pages + (size_t)(i % CONST_PAGES) * PAGE))
			die_page(&G->const_shadow[i % CONST_PAGES], const_pages + (size_t)(i % CONST_PAGES) * PAGE,
				"wrong bytes in a page that was written once");
}

void verify_everything(void)
{
	for (uint32_t i = 0; i < MAX_REGIONS; i++) {
		struct region *r = &me->regions[i];
		if (!r->used)
			continue;
		make_rw(r);
		verify_pages(r, 0, r->pages);
	}
}

void drop_everything(void)
{
	for (uint32_t i = 0; i < MAX_REGIONS; i++) {
		struct region *r = &me->regions[i];
		if (!r->used)
			continue;
		munmap(r->addr, (size_t)r->pages * PAGE);
		forget(r);
	}
}
