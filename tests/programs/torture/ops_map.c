/* Mappings come, go, move, shrink, grow and change their protection. */
#include "torture.h"

#define HUGE (512u)

static char *new_mapping(uint32_t pages, enum kind kind, int flags)
{
	size_t len = (size_t)pages * PAGE;
	int prot = PROT_READ | PROT_WRITE | (kind == K_EXEC ? PROT_EXEC : 0);
	int fd = -1;
	if (kind == K_FILE) {
		/* private pages of a sparse file of zeros: anonymous once written */
		fd = memfd_create("torture-private", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, 1ll << 36))
			die("memfd: %s", strerror(errno));
	} else {
		flags |= MAP_ANONYMOUS;
	}
	if (kind == K_STACK)
		flags |= MAP_STACK;
	if (kind == K_GROWSDOWN)
		flags |= MAP_GROWSDOWN | MAP_STACK;
	char *p = mmap(NULL, len + (kind == K_HUGE ? HUGE * PAGE : 0), prot, MAP_PRIVATE | flags, fd, 0);
	if (p == MAP_FAILED)
		die("mmap of %zu bytes: %s", len, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (kind == K_HUGE) {
		char *q = (char *)(((uintptr_t)p + HUGE * PAGE - 1) & ~(uintptr_t)(HUGE * PAGE - 1));
		if (q > p)
			munmap(p, (size_t)(q - p));
		if (p + HUGE * PAGE > q)
			munmap(q + len, (size_t)(p + HUGE * PAGE - q));
		p = q;
		madvise(p, len, MADV_HUGEPAGE);
	}
	return p;
}

void op_map(void)
{
	uint32_t pages, how = below(8);
	enum kind kind = below(3) ? K_ANON : (enum kind)below(K_KINDS);
	pages = 1 + (how < 2 ? below(16) : how < 5 ? below(G->max_pages / 8) : below(G->max_pages));
	int flags = below(4) ? 0 : MAP_NORESERVE;
	if (below(16) == 0)
		flags |= MAP_POPULATE;
	if (me->pages + pages > G->budget)
		return;
	char *p = new_mapping(pages, kind, flags);
	struct region *r = region_new(p, pages, PROT_READ | PROT_WRITE | (kind == K_EXEC ? PROT_EXEC : 0), kind);
	if (!r) {
		munmap(p, (size_t)pages * PAGE);
		return;
	}
	note('m', (uint64_t)p, pages, kind);
	if (below(8)) { /* the others fill it bit by bit */
		write_pages(r, 0, pages);
		return;
	}
	verify_pages(r, 0, pages);
}

void op_unmap(void)
{
	struct region *r = pick_any();
	if (!r || me->pages < G->budget / 2)
		return;
	note('u', (uint64_t)r->addr, r->pages, 0);
	if (munmap(r->addr, (size_t)r->pages * PAGE))
		die("munmap: %s", strerror(errno));
	forget(r);
}

/* Part of a mapping goes: head, tail or middle. */
void op_punch(void)
{
	struct region *r = pick_any();
	uint32_t first, n;
	if (!r)
		return;
	span(r, r->pages / 4 + 1, &first, &n);
	if (below(3) == 0)
		first = below(2) ? 0 : r->pages - n;
	note('p', (uint64_t)r->addr, first, n);
	if (munmap(r->addr + (size_t)first * PAGE, (size_t)n * PAGE))
		die("munmap of a part: %s", strerror(errno));
	cut(r, first, n);
}

/* A new mapping over a part of an old one. */
void op_fixed(void)
{
	struct region *r = pick();
	uint32_t first, n;
	if (!r)
		return;
	span(r, 64, &first, &n);
	char *at = r->addr + (size_t)first * PAGE;
	note('f', (uint64_t)r->addr, first, n);
	int prot = PROT_READ | PROT_WRITE | (r->kind == K_EXEC ? PROT_EXEC : 0);
	if (mmap(at, (size_t)n * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
		die("mmap MAP_FIXED: %s", strerror(errno));
	r->frag = 1;
	set_zero(r, first, n);
	struct shadow *s = shadow_of(r);
	for (uint32_t i = first; i < first + n; i++)
		s[i].flags = 0;
	if (below(2))
		verify_pages(r, first, n);
	else
		write_pages(r, first, n);
}

static void grown(struct region *r, uint32_t pages)
{
	struct shadow *s = shadow_of(r);
	for (uint32_t i = r->pages; i < pages; i++)
		s[i] = (struct shadow){ .ident = me->next_ident++, .flags = s[r->pages - 1].flags };
	me->pages += pages - r->pages;
	r->pages = pages;
}

/* A call on several mappings at once may be refused; on one it may not. */
static int refused(const struct region *r, const char *what)
{
	if (r->frag && (errno == EFAULT || errno == EINVAL))
		return 1;
	if (errno == EAGAIN) /* more locked memory than allowed */
		return 1;
	die("mremap (%s) of %p, %u pages: %s", what, (void *)r->addr, r->pages, strerror(errno));
}

static void remap_grow(struct region *r)
{
	uint32_t to = r->pages + 1 + below(r->pages);
	if (to > G->max_pages || me->pages + to - r->pages > G->budget)
		return;
	int flags = below(2) ? MREMAP_MAYMOVE : 0;
	char *p = mremap(r->addr, (size_t)r->pages * PAGE, (size_t)to * PAGE, flags);
	note('g', (uint64_t)r->addr, (uint64_t)p, to);
	if (p == MAP_FAILED) {
		if (!flags && errno == ENOMEM) /* no room behind it */
			return;
		(void)refused(r, "grow");
		return;
	}
	r->addr = p;
	uint32_t old = r->pages;
	grown(r, to);
	verify_pages(r, old, to - old);
	write_pages(r, old, (to - old + 1) / 2);
}

static void remap_shrink(struct region *r)
{
	uint32_t to = r->pages - below(r->pages);
	if (to == r->pages)
		return;
	note('s', (uint64_t)r->addr, r->pages, to);
	if (mremap(r->addr, (size_t)r->pages * PAGE, (size_t)to * PAGE, 0) != r->addr) {
		(void)refused(r, "shrink");
		return;
	}
	cut(r, to, r->pages - to);
}

/* To a place of our choosing; with over, onto memory in use. */
static void remap_move(struct region *r, int over)
{
	size_t len = (size_t)r->pages * PAGE;
	char *to = mmap(NULL, len, over ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		-1, 0);
	if (to == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	if (over)
		memset(to, 0x5a, len < 64 * PAGE ? len : 64 * PAGE);
	char *p = mremap(r->addr, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	note('v', (uint64_t)r->addr, (uint64_t)to, r->pages);
	if (p == MAP_FAILED) {
		int err = errno;
		/* on some kernels a refused move has already removed the destination */
		munmap(to, len);
		errno = err;
		(void)refused(r, "move");
		return;
	}
	r->addr = p;
}

/* The pages move, the old mapping stays and reads zeros. */
static void remap_dontunmap(struct region *r)
{
#ifdef MREMAP_DONTUNMAP
	if (r->kind == K_FILE || me->pages + r->pages > G->budget)
		return;
	size_t len = (size_t)r->pages * PAGE;
	char *p = mremap(r->addr, len, len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	note('d', (uint64_t)r->addr, (uint64_t)p, r->pages);
	if (p == MAP_FAILED) {
		(void)refused(r, "dontunmap");
		return;
	}
	char *old = r->addr;
	r->addr = p;
	for (uint32_t i = 0; i < r->pages; i += 1 + r->pages / 16)
		if (!page_zero(old + (size_t)i * PAGE))
			die("page %p is not zero after MREMAP_DONTUNMAP took it away", (void *)(old + (size_t)i * PAGE));
	if (munmap(old, len))
		die("munmap: %s", strerror(errno));
#else
	(void)r;
#endif
}

void op_remap(void)
{
	struct region *r = pick();
	if (!r)
		return;
	uint32_t how = below(6);
	/* several mappings at once: a move may stop half way, and nobody says where */
	if (r->frag && how >= 3)
		how = below(3);
	switch (how) {
	case 0:
	case 1: remap_grow(r); break;
	case 2: remap_shrink(r); break;
	case 3: remap_move(r, 0); break;
	case 4: remap_move(r, 1); break;
	default: remap_dontunmap(r); break;
	}
	uint32_t first, n;
	span(r, 64, &first, &n);
	if (r->used)
		verify_pages(r, first, n);
}

/* Does the kernel let a system call read (or write) there? */
static int may(char *at, int write_it)
{
	int fd[2];
	char c = 0;
	if (pipe2(fd, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	ssize_t n;
	if (write_it) {
		/* the byte that is there already, so that nothing changes if it is allowed */
		c = *(volatile char *)at;
		if (write(fd[1], &c, 1) != 1)
			die("write to a pipe: %s", strerror(errno));
		n = RETRY(read(fd[0], at, 1));
	} else {
		n = RETRY(write(fd[1], at, 1));
	}
	int ok = n == 1;
	if (!ok && errno != EFAULT)
		die("probing a protected page: %s", strerror(errno));
	close(fd[0]);
	close(fd[1]);
	return ok;
}

void op_protect(void)
{
	struct region *r = pick();
	uint32_t first, n;
	if (!r)
		return;
	span(r, r->pages, &first, &n);
	char *at = r->addr + (size_t)first * PAGE;
	size_t len = (size_t)n * PAGE;
	int rw = (int)r->prot;
	int to = below(3) ? PROT_READ : PROT_NONE;
	if (n < r->pages)
		r->frag = 1;
	note('P', (uint64_t)at, n, (uint64_t)to);
	if (mprotect(at, len, to))
		die("mprotect: %s", strerror(errno));
	if (below(2))
		usleep(below(2000));
	char *some = at + (size_t)below(n) * PAGE;
	if (to == PROT_READ) {
		verify_pages(r, first, n);
		if (may(some, 1))
			die("a PROT_READ page at %p can be written", (void *)some);
	} else if (may(some, 0)) {
		die("a PROT_NONE page at %p can be read", (void *)some);
	}
	if (n == r->pages && below(2)) {
		r->prot = (uint32_t)to; /* stays so until someone wants it */
		return;
	}
	if (mprotect(at, len, rw))
		die("mprotect back: %s", strerror(errno));
	verify_pages(r, first, n < 64 ? n : 64);
}
