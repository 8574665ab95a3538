/* Reading, writing and advising. */
#include "torture.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

void op_write(void)
{
	struct region *r = pick();
	uint32_t first, n;
	if (!r)
		return;
	span(r, below(8) ? 64 : r->pages, &first, &n);
	note('w', (uint64_t)r->addr, first, n);
	write_pages(r, first, n);
}

void op_poke(void)
{
	struct region *r = pick();
	if (!r)
		return;
	for (uint32_t i = 0, n = 1 + below(64); i < n; i++)
		poke_page(r, below(r->pages));
	note('k', (uint64_t)r->addr, 0, 0);
}

/* Here and there, backwards, or in strides: patterns that readahead meets. */
void op_verify(void)
{
	struct region *r = pick();
	uint32_t first, n;
	if (!r)
		return;
	switch (below(4)) {
	case 0:
		for (uint32_t i = 0; i < 64; i++)
			verify_pages(r, below(r->pages), 1);
		break;
	case 1:
		span(r, 256, &first, &n);
		while (n--)
			verify_pages(r, first + n, 1);
		break;
	case 2: {
		uint32_t step = 2 + below(30);
		for (uint32_t i = below(step), k = 0; i < r->pages && k < 64; i += step, k++)
			verify_pages(r, i, 1);
		break;
	}
	default:
		span(r, 256, &first, &n);
		verify_pages(r, first, n);
	}
	verify_consts(below(CONST_PAGES), 4);
}

void op_sweep(void)
{
	struct region *r = pick();
	if (r)
		verify_pages(r, 0, r->pages);
}

void op_sleep(void)
{
	usleep(below(5000));
}

void op_affinity(void)
{
	cpu_set_t set;
	uint32_t cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), one = below(cpus + 1);
	CPU_ZERO(&set);
	for (uint32_t i = 0; i < cpus; i++)
		if (one == cpus || i == one)
			CPU_SET(i, &set);
	sched_setaffinity(0, sizeof set, &set); /* a machine may forbid it */
}

static int any_flag(const struct region *r, uint32_t first, uint32_t n, uint8_t flag)
{
	const struct shadow *s = shadow_of(r);
	uint8_t all = 0;
	for (uint32_t i = first; i < first + n; i++)
		all |= s[i].flags;
	return (all & flag) != 0;
}

void op_dontneed(void)
{
	struct region *r = pick();
	uint32_t first, n;
	if (!r)
		return;
	span(r, below(4) ? 64 : r->pages, &first, &n);
	int locked = any_flag(r, first, n, PF_LOCKED);
	note('D', (uint64_t)r->addr, first, n);
	if (madvise(r->addr + (size_t)first * PAGE, (size_t)n * PAGE, MADV_DONTNEED)) {
		if (errno != EINVAL || !locked)
			die("MADV_DONTNEED: %s", strerror(errno));
		/* the part before the locked pages is gone, and which part depends on how the kernel sees it */
		struct shadow *s = shadow_of(r);
		for (uint32_t i = first; i < first + n && !(s[i].flags & PF_LOCKED); i++) {
			int zero = page_zero(r->addr + (size_t)i * PAGE);
			if (!zero)
				verify_pages(r, i, 1);
			else
				set_zero(r, i, 1);
		}
		return;
	}
	if (locked)
		die("MADV_DONTNEED of mlocked pages was not refused");
	set_zero(r, first, n);
	if (below(2))
		usleep(below(300));
	if (below(3))
		verify_pages(r, first, n);
	if (below(3) == 0)
		write_pages(r, first, (n + 1) / 2);
}

void op_free(void)
{
	struct region *r = pick();
	uint32_t first, n;
	if (!r || r->kind == K_FILE)
		return;
	span(r, 128, &first, &n);
	if (any_flag(r, first, n, PF_LOCKED))
		return;
	note('F', (uint64_t)r->addr, first, n);
	if (madvise(r->addr + (size_t)first * PAGE, (size_t)n * PAGE, MADV_FREE))
		die("MADV_FREE: %s", strerror(errno));
	struct shadow *s = shadow_of(r);
	for (uint32_t i = first; i < first + n; i++)
		if (s[i].state == P_DATA || s[i].poke)
			s[i].state = s[i].state == P_ZERO ? P_ZERO : P_FREED;
	/* a page of zeros but for a poked word may lose it: make the model sure again */
	for (uint32_t i = first; i < first + n; i++)
		if (s[i].poke) {
			if (below(2))
				poke_page(r, i);
			else
				write_pages(r, i, 1);
		}
	if (below(2))
		verify_pages(r, first, n);
	for (uint32_t i = first; i < first + n; i += 1 + below(4))
		write_pages(r, i, 1);
}

void op_advise(void)
{
	static const int advices[] = { MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLLAPSE, 20 /* COLD */, 21 /* PAGEOUT */,
		22 /* POPULATE_READ */, 23 /* POPULATE_WRITE */, MADV_WILLNEED, MADV_SEQUENTIAL, MADV_RANDOM, MADV_NORMAL,
		MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_DONTDUMP, MADV_DODUMP };
	struct region *r = pick();
	uint32_t first, n;
	if (!r)
		return;
	span(r, below(4) ? 256 : r->pages, &first, &n);
	int advice = advices[below(sizeof advices / sizeof *advices)];
	int splits = advice < 20 || advice > 25; /* the others act on pages, not on the mapping */
	note('A', (uint64_t)r->addr + (uint64_t)first * PAGE, n, (uint64_t)advice);
	/* whether a kernel knows or grants the advice is its own affair; the bytes are ours */
	madvise(r->addr + (size_t)first * PAGE, (size_t)n * PAGE, advice);
	if (splits && n < r->pages)
		r->frag = 1;
	verify_pages(r, first, n < 128 ? n : 128);
}

/* MADV_DONTFORK and WIPEONFORK come and go; forks see what they did. */
void op_forkflags(void)
{
	static const struct {
		int advice;
		uint8_t set, clear;
	} how[] = { { MADV_DONTFORK, PF_DONTFORK, 0 }, { MADV_DOFORK, 0, PF_DONTFORK }, { MADV_WIPEONFORK, PF_WIPE, 0 },
		{ MADV_KEEPONFORK, 0, PF_WIPE } };
	struct region *r = pick();
	uint32_t first, n, k = below(4);
	if (!r || (r->kind == K_FILE && k >= 2))
		return;
	span(r, 64, &first, &n);
	note('O', (uint64_t)r->addr + (uint64_t)first * PAGE, n, k);
	if (madvise(r->addr + (size_t)first * PAGE, (size_t)n * PAGE, how[k].advice))
		die("madvise %d: %s", how[k].advice, strerror(errno));
	r->frag = 1;
	struct shadow *s = shadow_of(r);
	for (uint32_t i = first; i < first + n; i++)
		s[i].flags = (uint8_t)((s[i].flags | how[k].set) & ~how[k].clear);
}

static uint32_t locked_pages(void)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < MAX_REGIONS; i++)
		if (me->regions[i].used)
			for (uint32_t p = 0; p < me->regions[i].pages; p++)
				n += (shadow_of(&me->regions[i])[p].flags & PF_LOCKED) != 0;
	return n;
}

static void must_be_resident(const struct region *r, uint32_t first, uint32_t n)
{
	unsigned char vec[64];
	if (mincore(r->addr + (size_t)first * PAGE, (size_t)n * PAGE, vec))
		die("mincore: %s", strerror(errno));
	for (uint32_t i = 0; i < n; i++)
		if (!(vec[i] & 1))
			die("page %p is mlocked and not resident", (void *)(r->addr + (size_t)(first + i) * PAGE));
}

void op_lock(void)
{
	struct region *r = pick();
	uint32_t first, n;
	if (!r)
		return;
	span(r, 48, &first, &n);
	char *at = r->addr + (size_t)first * PAGE;
	struct shadow *s = shadow_of(r);
	int lock = below(2) && locked_pages() < 192;
	note('L', (uint64_t)at, n, (uint64_t)lock);
	r->frag = 1;
	if (!lock) {
		if (munlock(at, (size_t)n * PAGE))
			die("munlock: %s", strerror(errno));
		for (uint32_t i = first; i < first + n; i++)
			s[i].flags &= (uint8_t)~PF_LOCKED;
		return;
	}
	if (mlock(at, (size_t)n * PAGE)) {
		if (errno == ENOMEM || errno == EPERM || errno == EAGAIN) {
			munlock(at, (size_t)n * PAGE);
			for (uint32_t i = first; i < first + n; i++)
				s[i].flags &= (uint8_t)~PF_LOCKED;
			return;
		}
		die("mlock: %s", strerror(errno));
	}
	for (uint32_t i = first; i < first + n; i++)
		s[i].flags |= PF_LOCKED;
	must_be_resident(r, first, n);
	usleep(below(3000));
	must_be_resident(r, first, n);
	verify_pages(r, first, n);
	must_be_resident(r, first, n);
}
