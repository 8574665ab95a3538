/* A copy of the shadow, taken before a fork: the parent's own goes on changing
 * while the child checks what it inherited. In shared memory, so that it is
 * never managed and a daemon can leave its result there. */
#include "torture.h"

struct snap_region {
	struct region r;
	size_t at; /* of its first shadow */
};

struct snapshot {
	size_t bytes;
	uint32_t regions;
	_Atomic uint32_t result; /* 0 running, 1 ok, 2 failed */
	_Atomic int32_t pid;
	struct snap_region region[];
};

static struct shadow *snap_shadow(struct snapshot *s, const struct snap_region *r)
{
	return (struct shadow *)(void *)((char *)s + r->at);
}

static void copy_worker(struct snapshot *s, const struct worker *w, size_t *at)
{
	for (uint32_t i = 0; i < MAX_REGIONS; i++) {
		const struct region *r = &w->regions[i];
		if (!r->used)
			continue;
		struct snap_region *sr = &s->region[s->regions++];
		sr->r = *r;
		sr->at = *at;
		memcpy(snap_shadow(s, sr), shadows + ((size_t)w->id * MAX_REGIONS + r->slot) * G->max_pages,
			r->pages * sizeof(struct shadow));
		*at += r->pages * sizeof(struct shadow);
	}
}

/* everyone: all threads' pages; the caller holds the world lock exclusively. */
struct snapshot *snapshot_take(int everyone)
{
	uint32_t regions = 0;
	size_t pages = 0;
	uint32_t from = everyone ? 0 : me->id, to = everyone ? G->workers : me->id + 1;
	for (uint32_t w = from; w < to; w++)
		for (uint32_t i = 0; i < MAX_REGIONS; i++)
			if (G->worker[w].regions[i].used) {
				regions++;
				pages += G->worker[w].regions[i].pages;
			}
	size_t at = sizeof(struct snapshot) + regions * sizeof(struct snap_region);
	size_t bytes = at + pages * sizeof(struct shadow);
	struct snapshot *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		die("mmap of a snapshot: %s", strerror(errno));
	s->bytes = bytes;
	for (uint32_t w = from; w < to; w++)
		copy_worker(s, &G->worker[w], &at);
	return s;
}

void snapshot_drop(struct snapshot *s)
{
	munmap(s, s->bytes);
}

_Atomic uint32_t *snapshot_result(struct snapshot *s)
{
	return &s->result;
}

_Atomic int32_t *snapshot_pid(struct snapshot *s)
{
	return &s->pid;
}

/*
 * Memory of MADV_DONTFORK is not in the child. Its addresses are free there, and whatever maps memory
 * in the child (a library's fork handler, the C library) may get them: what must not be there is the
 * parent's page.
 */
static void must_not_be_there(const struct shadow *s, const char *page)
{
	uint64_t got[WORDS];
	struct iovec near = { got, PAGE }, far = { (void *)(uintptr_t)page, PAGE };
	if (process_vm_readv(getpid(), &near, 1, &far, 1, 0) != (ssize_t)PAGE)
		return;
	if (s->state == P_DATA && page_ok(s, (const char *)got) && !page_zero((const char *)got))
		die("page %p is MADV_DONTFORK and the child reads its parent's bytes there", (const void *)page);
}

static void verify_one(const struct shadow *s, const char *page)
{
	if (s->flags & PF_DONTFORK) {
		must_not_be_there(s, page);
	} else if (s->flags & PF_WIPE) {
		if (!page_zero(page))
			die_page(s, page, "a MADV_WIPEONFORK page is not zero in the child");
	} else if (!page_ok(s, page)) {
		die_page(s, page, "wrong bytes in a forked child");
	}
}

static void open_region(const struct region *r, struct shadow *s)
{
	for (uint32_t i = 0; i < r->pages; i++)
		if (!(s[i].flags & PF_DONTFORK))
			if (mprotect(r->addr + (size_t)i * PAGE, PAGE, PROT_READ | PROT_WRITE))
				die("mprotect in the child: %s", strerror(errno));
}

/* The child's own life: it changes a part of what it inherited, and checks it. */
static void child_writes(struct snap_region *sr, struct shadow *s)
{
	for (uint32_t i = 0; i < sr->r.pages; i += 3) {
		char *page = sr->r.addr + (size_t)i * PAGE;
		if (s[i].flags & PF_DONTFORK)
			continue;
		s[i].flags = 0;
		s[i].state = P_DATA;
		s[i].version += 1000000;
		s[i].poke = 0;
		fill_page(&s[i], page);
	}
	for (uint32_t i = 0; i < sr->r.pages; i++)
		verify_one(&s[i], sr->r.addr + (size_t)i * PAGE);
}

int snapshot_verify(struct snapshot *s, int write_too)
{
	/* half the children walk backwards, so as to meet pages in another order than the parent */
	int back = (int)(rnd() & 1);
	for (uint32_t n = 0; n < s->regions; n++) {
		struct snap_region *sr = &s->region[back ? s->regions - 1 - n : n];
		struct shadow *sh = snap_shadow(s, sr);
		if ((sr->r.prot & 3) != (PROT_READ | PROT_WRITE))
			open_region(&sr->r, sh);
		for (uint32_t i = 0; i < sr->r.pages; i++) {
			uint32_t p = back ? sr->r.pages - 1 - i : i;
			verify_one(&sh[p], sr->r.addr + (size_t)p * PAGE);
		}
		if (write_too)
			child_writes(sr, sh);
	}
	verify_consts(0, CONST_PAGES);
	return 0;
}
