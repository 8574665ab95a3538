/* Threads coming and going, several on the same pages, futexes, stacks. */
#include "torture.h"
#include <linux/futex.h>

struct visit {
	pthread_t thread;
	struct worker *owner;
	struct region *r;
	uint32_t first, n, part, parts;
	_Atomic uint32_t *word;
	uint32_t depth;
	pthread_barrier_t *start;
};

static void start(struct visit *v, void *(*run)(void *), size_t stack, char *at)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	if (at)
		pthread_attr_setstack(&attr, at, stack);
	else
		pthread_attr_setstacksize(&attr, stack);
	int e = pthread_create(&v->thread, &attr, run, v);
	if (e)
		die("pthread_create: %s", strerror(e));
	pthread_attr_destroy(&attr);
}

/* Recursion over stack frames that are checked on the way back. */
static uint64_t __attribute__((noinline)) deep(uint64_t seed, uint32_t depth)
{
	volatile uint64_t frame[256];
	for (uint32_t i = 0; i < 256; i++)
		frame[i] = mix(seed + i + ((uint64_t)depth << 32));
	uint64_t sum = depth ? deep(seed, depth - 1) : 0;
	for (uint32_t i = 0; i < 256; i++) {
		if (frame[i] != mix(seed + i + ((uint64_t)depth << 32)))
			die("stack word at %p: found %#llx, expected %#llx", (void *)(uintptr_t)&frame[i],
				(unsigned long long)frame[i], (unsigned long long)mix(seed + i + ((uint64_t)depth << 32)));
		sum += frame[i];
	}
	return sum;
}

void op_stack(void)
{
	note('K', 0, 0, 0);
	/* worker stacks are 8 MiB; two passes, the second over frames that lay idle */
	uint32_t depth = 100 + below(1500);
	deep(rnd(), depth);
	usleep(below(1000));
	deep(rnd(), depth / 2);
}

static void *visit_verify(void *arg)
{
	struct visit *v = arg;
	me = v->owner;
	pthread_barrier_wait(v->start);
	const struct shadow *s = shadow_of(v->r);
	for (uint32_t k = 0; k < v->n; k++) {
		/* each from another place, so that faults on one page meet */
		uint32_t i = v->first + (v->part & 1 ? v->n - 1 - k : k);
		if (!page_ok(s + i, v->r->addr + (size_t)i * PAGE))
			die_page(s + i, v->r->addr + (size_t)i * PAGE, "wrong bytes, read by several threads");
	}
	deep(v->part, v->depth);
	return NULL;
}

void op_threads(void)
{
	struct region *r = pick();
	struct visit v[6];
	pthread_barrier_t b;
	uint32_t n = 1 + below(6), first, len;
	if (!r)
		return;
	span(r, 256, &first, &len);
	note('t', (uint64_t)r->addr, first, len);
	pthread_barrier_init(&b, NULL, n);
	size_t own = 256 * 1024;
	char *stack = mmap(NULL, own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t kib = 128u << below(4);
		v[i] = (struct visit){ .owner = me, .r = r, .first = first, .n = len, .part = i, .start = &b };
		v[i].depth = i ? kib / 8 : 20;
		start(&v[i], visit_verify, i ? kib * 1024 : own, i ? NULL : stack);
	}
	for (uint32_t i = 0; i < n; i++)
		pthread_join(v[i].thread, NULL);
	munmap(stack, own);
	pthread_barrier_destroy(&b);
	me->verified += (uint64_t)n * len;
}

/* Each writes every parts-th word of the new version, all at once. */
static void *visit_write(void *arg)
{
	struct visit *v = arg;
	me = v->owner;
	uint64_t want[WORDS];
	pthread_barrier_wait(v->start);
	for (uint32_t i = v->first; i < v->first + v->n; i++) {
		volatile uint64_t *w = (volatile uint64_t *)(void *)(v->r->addr + (size_t)i * PAGE);
		content(shadow_of(v->r) + i, want, 0);
		for (uint32_t k = v->part; k < WORDS; k += v->parts)
			w[k] = want[k];
	}
	return NULL;
}

void op_sharewrite(void)
{
	struct region *r = pick();
	struct visit v[4];
	pthread_barrier_t b;
	uint32_t parts = 2 + below(3), first, len;
	if (!r)
		return;
	span(r, 64, &first, &len);
	note('W', (uint64_t)r->addr, first, len);
	for (uint32_t i = first; i < first + len; i++)
		next_version(r, i);
	pthread_barrier_init(&b, NULL, parts);
	for (uint32_t i = 0; i < parts; i++) {
		v[i] = (struct visit){ .owner = me, .r = r, .first = first, .n = len, .part = i, .parts = parts, .start = &b };
		start(&v[i], visit_write, 128 * 1024, NULL);
	}
	for (uint32_t i = 0; i < parts; i++)
		pthread_join(v[i].thread, NULL);
	pthread_barrier_destroy(&b);
	verify_pages(r, first, len);
	me->written += len;
}

/* While the owner discards, each word is the old one or zero; afterwards zero. */
static void *visit_race(void *arg)
{
	struct visit *v = arg;
	me = v->owner;
	uint64_t want[WORDS];
	pthread_barrier_wait(v->start);
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t k = 0; k < v->n; k++) {
			uint32_t i = v->first + (v->part & 1 ? v->n - 1 - k : k);
			volatile uint64_t *w = (volatile uint64_t *)(void *)(v->r->addr + (size_t)i * PAGE);
			content(shadow_of(v->r) + i, want, 0);
			for (uint32_t x = 0; x < WORDS; x += 61) {
				uint64_t got = w[x];
				if (got != want[x] && got != 0)
					die("page %p word %u: %#llx is neither old nor zero during MADV_DONTNEED",
						(void *)(uintptr_t)w, x, (unsigned long long)got);
			}
		}
	return NULL;
}

void op_racezero(void)
{
	struct region *r = pick();
	struct visit v[2];
	pthread_barrier_t b;
	uint32_t first, len;
	if (!r)
		return;
	span(r, 128, &first, &len);
	for (uint32_t i = first; i < first + len; i++) {
		if (shadow_of(r)[i].flags & PF_LOCKED)
			return;
		if (shadow_of(r)[i].state == P_FREED)
			write_pages(r, i, 1);
	}
	note('R', (uint64_t)r->addr, first, len);
	pthread_barrier_init(&b, NULL, 3);
	for (uint32_t i = 0; i < 2; i++) {
		v[i] = (struct visit){ .owner = me, .r = r, .first = first, .n = len, .part = i, .start = &b };
		start(&v[i], visit_race, 128 * 1024, NULL);
	}
	pthread_barrier_wait(&b);
	usleep(below(200));
	if (madvise(r->addr + (size_t)first * PAGE, (size_t)len * PAGE, MADV_DONTNEED))
		die("MADV_DONTNEED: %s", strerror(errno));
	for (uint32_t i = first; i < first + len; i++)
		if (!page_zero(r->addr + (size_t)i * PAGE))
			die_page(shadow_of(r) + i, r->addr + (size_t)i * PAGE, "not zero after MADV_DONTNEED");
	for (uint32_t i = 0; i < 2; i++)
		pthread_join(v[i].thread, NULL);
	set_zero(r, first, len);
	verify_pages(r, first, len);
	pthread_barrier_destroy(&b);
}

static long futex(_Atomic uint32_t *word, int op, uint32_t val, const struct timespec *t)
{
	return syscall(SYS_futex, word, op, val, t, NULL, 0);
}

static void *visit_futex(void *arg)
{
	struct visit *v = arg;
	me = v->owner;
	struct timespec t = { 0, 50 * 1000 * 1000 };
	while (atomic_load(v->word) == 0) {
		long r = futex(v->word, v->part, 0, &t);
		if (r && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT)
			die("futex wait in a page: %s", strerror(errno));
	}
	atomic_fetch_add(v->word, 1);
	futex(v->word, (int)v->part == FUTEX_WAIT ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, 1, NULL);
	return NULL;
}

/* The word of a futex lies in a page that goes out while someone waits on it. */
void op_futex(void)
{
	struct region *r = pick();
	struct visit v;
	if (!r)
		return;
	uint32_t i = below(r->pages);
	char *page = r->addr + (size_t)i * PAGE;
	write_pages(r, i, 1);
	v = (struct visit){ .owner = me, .word = (_Atomic uint32_t *)(void *)(page + 8 * below(WORDS)) };
	v.part = below(2) ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE;
	note('x', (uint64_t)page, v.part, 0);
	atomic_store(v.word, 0);
	start(&v, visit_futex, 128 * 1024, NULL);
	usleep(below(3000));
	atomic_store(v.word, 1);
	futex(v.word, v.part == FUTEX_WAIT ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, 1, NULL);
	pthread_join(v.thread, NULL);
	if (atomic_load(v.word) != 2)
		die("futex word at %p is %u, must be 2", (void *)v.word, atomic_load(v.word));
	write_pages(r, i, 1);
}
