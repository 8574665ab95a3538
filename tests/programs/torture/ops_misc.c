/* The program's own malloc, its own userfaultfd, and code in pages. */
#include "torture.h"
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static void block_fill(struct block *b, uint32_t from)
{
	for (uint32_t i = from; i < b->words; i++)
		b->p[i] = mix(b->seed + i / 4);
}

static void block_check(const struct block *b, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++)
		if (b->p[i] != mix(b->seed + i / 4))
			die("malloc block %p of %u words: word %u is %#llx, must be %#llx", (void *)b->p, b->words, i,
				(unsigned long long)b->p[i], (unsigned long long)mix(b->seed + i / 4));
}

/* malloc, realloc, calloc and free of sizes on both sides of the mmap threshold. */
void op_malloc(void)
{
	struct block *b = &me->blocks[below(MAX_BLOCKS)];
	uint32_t cap = G->budget * WORDS / 8 / MAX_BLOCKS, words = 1 + below(below(3) ? 512 : cap < 65536 ? cap : 65536);
	note('h', (uint64_t)b->p, b->words, words);
	if (!b->p) {
		b->p = below(2) ? malloc(words * 8ull) : calloc(words, 8);
		if (!b->p)
			die("malloc of %u words", words);
		b->words = words;
		b->seed = rnd();
		block_fill(b, 0);
		return;
	}
	block_check(b, b->words);
	if (below(2)) {
		free(b->p);
		b->p = NULL;
		return;
	}
	uint32_t old = b->words;
	uint64_t *p = realloc(b->p, words * 8ull);
	if (!p)
		die("realloc to %u words", words);
	b->p = p;
	b->words = words;
	block_check(b, old < words ? old : words);
	if (old < words)
		block_fill(b, old);
}

/* A function written into a page, run after it had time to leave. */
void op_code(void)
{
	struct region *r = NULL;
	for (uint32_t i = 0, at = below(MAX_REGIONS); i < MAX_REGIONS && !r; i++, at = (at + 1) % MAX_REGIONS)
		if (me->regions[at].used && me->regions[at].kind == K_EXEC)
			r = &me->regions[at];
	if (!r)
		return;
	make_rw(r);
	uint32_t i = below(r->pages), value = (uint32_t)rnd() & 0xffff;
	char *page = r->addr + (size_t)i * PAGE, *at = page + 64 * (1 + below(62));
	note('C', (uint64_t)at, value, 0);
#if defined(__x86_64__)
	unsigned char code[] = { 0xb8, (unsigned char)value, (unsigned char)(value >> 8), 0, 0, 0xc3 };
#elif defined(__aarch64__)
	uint32_t code[] = { 0x52800000u | (value << 5), 0xd65f03c0u };
#else
	skip("no code for this processor");
	return;
#endif
#if defined(__x86_64__) || defined(__aarch64__)
	memcpy(at, code, sizeof code);
	__builtin___clear_cache(at, at + sizeof code);
	usleep(below(1000));
	uint32_t (*run)(void);
	memcpy(&run, &at, sizeof run);
	uint32_t got = run();
	if (got != value)
		die("code at %p gave %u, must give %u", (void *)at, got, value);
	write_pages(r, i, 1);
#endif
}

static int uffd_open(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd >= 0)
		return fd;
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		return -1;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
	close(dev);
	return fd;
}

struct own_uffd {
	int fd;
	char *at;
	uint32_t pages;
	uint64_t seed;
	_Atomic uint32_t served, stop;
};

static void uffd_page(const struct own_uffd *u, uint32_t i, uint64_t *out)
{
	for (uint32_t w = 0; w < WORDS; w++)
		out[w] = mix(u->seed + i) + w;
}

static void *uffd_serve(void *arg)
{
	struct own_uffd *u = arg;
	uint64_t page[WORDS];
	struct pollfd p = { .fd = u->fd, .events = POLLIN };
	while (!u->stop) {
		struct uffd_msg m;
		if (poll(&p, 1, 5) <= 0 || read(u->fd, &m, sizeof m) != sizeof m || m.event != UFFD_EVENT_PAGEFAULT)
			continue;
		uint64_t at = m.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
		uffd_page(u, (uint32_t)((at - (uint64_t)(uintptr_t)u->at) / PAGE), page);
		struct uffdio_copy c = { .dst = at, .src = (uint64_t)(uintptr_t)page, .len = PAGE };
		while (ioctl(u->fd, UFFDIO_COPY, &c) && errno == EAGAIN)
			c.copy = 0;
		u->served++;
	}
	return NULL;
}

/* The program serves page faults itself. */
void op_uffd(void)
{
	struct own_uffd u = { .fd = uffd_open(), .pages = 1 + below(64), .seed = rnd() };
	struct uffdio_api api = { .api = UFFD_API };
	pthread_t thread;
	if (u.fd < 0) {
		skip("no userfaultfd for this user");
		return;
	}
	size_t len = (size_t)u.pages * PAGE;
	u.at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (u.at == MAP_FAILED || ioctl(u.fd, UFFDIO_API, &api))
		die("own userfaultfd: %s", strerror(errno));
	struct uffdio_register reg = { .range = { (uint64_t)(uintptr_t)u.at, len }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	note('N', (uint64_t)u.at, u.pages, 0);
	if (ioctl(u.fd, UFFDIO_REGISTER, &reg)) {
		if (errno != EBUSY)
			die("UFFDIO_REGISTER: %s", strerror(errno));
		skip("UFFDIO_REGISTER: the memory is taken already");
		close(u.fd);
		munmap(u.at, len);
		return;
	}
	if (pthread_create(&thread, NULL, uffd_serve, &u))
		die("pthread_create");
	uint64_t want[WORDS];
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < u.pages; i++) {
			uffd_page(&u, i, want);
			if (memcmp(want, u.at + (size_t)i * PAGE, PAGE))
				die("page %u of the program's own userfaultfd reads wrong bytes", i);
		}
		usleep(below(2000));
	}
	u.stop = 1;
	pthread_join(thread, NULL);
	if (u.served < u.pages)
		die("%u pages, but only %u faults came to the program's own userfaultfd", u.pages, u.served);
	munmap(u.at, len);
	close(u.fd);
}

/* Only when asked for by name: one wrong bit, which must be found and told. */
void op_sabotage(void)
{
	struct region *r = pick();
	if (!r)
		return;
	volatile char *at = r->addr + (size_t)below(r->pages) * PAGE + 64 + below(PAGE - 64);
	*at = (char)(*at ^ 0x10);
}
