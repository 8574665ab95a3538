/* Discards, protections, moves, holes, locks, huge pages. */
#include "kernel.h"
#include <pthread.h>
#include <stdatomic.h>

#define TAG 1

/* Old bytes must not come back after MADV_DONTNEED, whenever it meets the evictor. */
static void dontneed(void)
{
	size_t pages = 512, block = 64;
	char *p = map(pages * PAGE), *q = map(press_mib * MIB / 4);
	for (uint64_t round = 0; round < 200; round++) {
		fill(p, pages * PAGE, round, 0);
		if (round % 8 == 0)
			fill(q, press_mib * MIB / 4, round, 0);
		if (round % 32 == 0)
			press();
		for (size_t at = (round & 1) * block; at < pages; at += 2 * block) {
			MUST(!madvise(p + at * PAGE, block * PAGE, MADV_DONTNEED));
			check_zero(p + at * PAGE, block * PAGE, "after MADV_DONTNEED");
		}
		for (size_t at = (~round & 1) * block; at < pages; at += 2 * block)
			check(p + at * PAGE, block * PAGE, round, at, "beside a discarded range");
	}
}

static _Atomic int stop;

static void *discards(void *arg)
{
	char *p = arg;
	size_t bytes = data_mib * MIB;
	for (uint64_t round = 1; !stop; round++) {
		size_t first = (round * 37) % (bytes / PAGE - 32);
		char *at = p + first * PAGE;
		fill(at, 32 * PAGE, round, first);
		MUST(!madvise(at, 32 * PAGE, MADV_DONTNEED));
		check_zero(at, 32 * PAGE, "in a thread that discards under pressure");
	}
	return NULL;
}

/* The same while another thread keeps the evictor busy all the time. */
static void dontneed_race(void)
{
	pthread_t t;
	char *p = map(data_mib * MIB);
	fill(p, data_mib * MIB, 0, 0);
	MUST(!pthread_create(&t, NULL, discards, p));
	for (int i = 0; i < 12; i++)
		press();
	stop = 1;
	pthread_join(t, NULL);
}

static void *discards_cold(void *arg)
{
	char *p = arg;
	size_t pages = press_mib * MIB / PAGE;
	for (uint64_t random = 1; !stop;) {
		random = random * 6364136223846793005ul + 1442695040888963407ul;
		size_t first = (random >> 33) % (pages - 32);
		MUST(!madvise(p + first * PAGE, 32 * PAGE, MADV_DONTNEED));
		for (char *at = p + first * PAGE; at < p + (first + 32) * PAGE; at += PAGE) {
			if (*(uint64_t *)at)
				fail("discarded long after its last use: %p holds %#llx", (void *)at, *(unsigned long long *)at);
			*(uint64_t *)at = random;
		}
	}
	return NULL;
}

/* Pages are discarded that nobody has used for long: those that the evictor is about to read. */
static void dontneed_cold(void)
{
	pthread_t t;
	size_t bytes = press_mib * MIB;
	char *p = map(bytes), *q = map(bytes);
	memset(p, 3, bytes);
	MUST(!pthread_create(&t, NULL, discards_cold, p));
	for (uint64_t round = 0; round < 8; round++)
		for (size_t at = 0; at < bytes; at += PAGE)
			*(uint64_t *)(q + at) = round + at;
	stop = 1;
	pthread_join(t, NULL);
	for (size_t at = 0; at < bytes; at += PAGE)
		if (*(uint64_t *)(q + at) != 7 + at)
			fail("the page at %#zx of the memory that makes pressure is another", at);
}

static void madv_free(void)
{
	size_t pages = data_mib * MIB / PAGE;
	char *p = map(pages * PAGE);
	for (uint64_t round = 0; round < 6; round++) {
		fill(p, pages * PAGE, round, 0);
		if (round & 1)
			press();
		MUST(!madvise(p, pages * PAGE, MADV_FREE));
		for (size_t i = 0; i < pages; i += 3)
			fill(p + i * PAGE, PAGE, round + 100, i);
		press();
		for (size_t i = 0; i < pages; i++) {
			const char *at = p + i * PAGE;
			if (i % 3 == 0)
				check(at, PAGE, round + 100, i, "rewritten after MADV_FREE");
			else if (!matches(at, round, i))
				check_zero(at, PAGE, "neither old nor zero after MADV_FREE");
		}
	}
}

/* Pages keep their bytes through every protection, and the protection holds. */
static void protections(void)
{
	static const int prots[] = { PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE | PROT_EXEC, PROT_READ | PROT_EXEC, PROT_WRITE };
	size_t bytes = data_mib * MIB, part = bytes / 8;
	char *p = map(bytes);
	fill(p, bytes, TAG, 0);
	for (size_t k = 0; k < 5; k++) {
		for (size_t i = 0; i < 8; i++)
			MUST(!mprotect(p + i * part, part, prots[(i + k) % 5]));
		press();
		int fd[2];
		char c;
		MUST(!pipe(fd));
		for (size_t i = 0; i < 8; i++) {
			int prot = prots[(i + k) % 5];
			char *at = p + i * part;
			ssize_t n = write(fd[1], at + PAGE, 1);
			if (prot == PROT_NONE ? n != -1 || errno != EFAULT : n != 1)
				fail("write(2) from memory of protection %d gave %zd (%s)", prot, n, strerror(errno));
			if (n == 1)
				MUST(read(fd[0], &c, 1) == 1);
			if (prot == PROT_READ || prot == (PROT_READ | PROT_EXEC))
				check(at, part, TAG, i * part / PAGE, "read-only memory");
			MUST(write(fd[1], "x", 1) == 1);
			n = read(fd[0], at, 1);
			if (prot & PROT_WRITE) {
				MUST(n == 1);
				fill(at, PAGE, TAG, i * part / PAGE);
			} else if (n != -1 || errno != EFAULT) {
				fail("read(2) into memory of protection %d gave %zd", prot, n);
			} else {
				MUST(read(fd[0], &c, 1) == 1);
			}
		}
		close(fd[0]);
		close(fd[1]);
	}
	MUST(!mprotect(p, bytes, PROT_READ | PROT_WRITE));
	check(p, bytes, TAG, 0, "after all protections");
}

/* A mapping grows, shrinks and moves with its pages out; mremap never fails for it. */
static void mremap_whole(void)
{
	size_t bytes = data_mib * MIB / 2, page = bytes / PAGE;
	char *p = map(bytes);
	fill(p, bytes, TAG, 0);
	for (int round = 0; round < 4; round++) {
		press();
		size_t bigger = bytes + bytes / 2;
		p = mremap(p, bytes, bigger, MREMAP_MAYMOVE);
		MUST(p != MAP_FAILED);
		check_zero(p + bytes, bigger - bytes, "the grown tail");
		fill(p + bytes, bigger - bytes, TAG, page);
		press();
		char *to = mmap(NULL, bigger, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		MUST(to != MAP_FAILED);
		MUST(mremap(p, bigger, bigger, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
		p = to;
		check(p, bigger, TAG, 0, "moved by mremap");
		press();
		MUST(mremap(p, bigger, bytes, 0) == p);
		check(p, bytes, TAG, 0, "shrunk by mremap");
	}
}

/* A half of a mapping moves away; the old half stays or is replaced. */
static void mremap_part(void)
{
	size_t bytes = data_mib * MIB, half = bytes / 2;
	for (int round = 0; round < 4; round++) {
		char *p = map(bytes);
		fill(p, bytes, TAG + (uint64_t)round, 0);
		press();
		char *q = mremap(p + half, half, half + PAGE * 8, MREMAP_MAYMOVE);
		MUST(q != MAP_FAILED);
		if (q != p + half) {
			char *again = mmap(p + half, half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
			MUST(again == p + half);
			check_zero(again, half, "new memory where old memory was");
			MUST(!munmap(again, half));
		}
		press();
		check(p, half, TAG + (uint64_t)round, 0, "the half that stayed");
		check(q, half, TAG + (uint64_t)round, half / PAGE, "the half that moved");
		check_zero(q + half, PAGE * 8, "its grown tail");
		MUST(!munmap(p, half) && !munmap(q, half + PAGE * 8));
	}
}

/* realloc of a large block is mremap inside glibc, where nobody can interpose. */
static void realloc_grows(void)
{
	size_t step = MIB;
	char *p = NULL;
	for (size_t bytes = step; bytes <= press_mib * MIB; bytes += step) {
		p = realloc(p, bytes);
		MUST(p);
		/* malloc gives 16 bytes past a page: words, not pages */
		uint64_t *w = (uint64_t *)(void *)(p + bytes - step);
		for (size_t i = 0; i < step / 8; i++)
			w[i] = word(TAG, bytes, i);
	}
	for (size_t bytes = step; bytes <= press_mib * MIB; bytes += step) {
		uint64_t *w = (uint64_t *)(void *)(p + bytes - step);
		for (size_t i = 0; i < step / 8; i++)
			if (w[i] != word(TAG, bytes, i))
				fail("realloc: MiB %zu word %zu is %#llx", bytes / step, i, (unsigned long long)w[i]);
	}
	free(p);
}

/* Holes and new mappings over memory that is out read as new memory does. */
static void map_fixed(void)
{
	size_t bytes = data_mib * MIB, part = bytes / 16;
	for (uint64_t round = 0; round < 4; round++) {
		char *p = map(bytes);
		fill(p, bytes, round, 0);
		press();
		for (size_t i = 1; i < 16; i += 4)
			MUST(!munmap(p + i * part, part));
		for (size_t i = 2; i < 16; i += 4)
			MUST(mmap(p + i * part, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + i * part);
		for (size_t i = 1; i < 16; i += 4)
			MUST(mmap(p + i * part, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
				p + i * part);
		press();
		for (size_t i = 0; i < 16; i++)
			if (i % 4 == 1 || i % 4 == 2)
				check_zero(p + i * part, part, "a new mapping over an old one");
			else
				check(p + i * part, part, round, i * part / PAGE, "beside a new mapping");
		MUST(!munmap(p, bytes));
	}
}

/* Memory that is locked is resident. */
static void mlocked(void)
{
	size_t bytes = 4 * MIB, more = data_mib * MIB;
	static unsigned char vec[4 * MIB / PAGE];
	char *p = map(bytes), *q = map(more);
	fill(p, bytes, TAG, 0);
	fill(q, more, TAG, 7);
	press();
	if (mlock(p, bytes))
		cannot("may not lock 4 MiB");
	for (int i = 0; i < 3; i++) {
		MUST(!mincore(p, bytes, vec));
		for (size_t n = 0; n < sizeof vec; n++)
			if (!(vec[n] & 1))
				fail("page %zu of locked memory is not resident", n);
		press();
	}
	check(p, bytes, TAG, 0, "locked memory");
	MUST(!munlock(p, bytes));
	press();
	check(p, bytes, TAG, 0, "memory that was locked");
	check(q, more, TAG, 7, "memory beside");
}

/* Resident memory that is nobody else's, in bytes. */
static size_t anonymous(void)
{
	size_t resident, shared;
	FILE *file = fopen("/proc/self/statm", "r");
	MUST(file && fscanf(file, "%*s %zu %zu", &resident, &shared) == 2);
	fclose(file);
	return (resident - shared) * PAGE;
}

/* mlockall brings everything in and keeps what comes, and only that. */
static void mlock_all(void)
{
	size_t bytes = 2 * MIB;
	char *p = map(bytes);
	static unsigned char vec[2 * MIB / PAGE];
	fill(p, bytes, TAG, 0);
	press();
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		cannot("may not lock everything");
	char *q = map(bytes);
	for (int k = 0; k < 2; k++) {
		char *at = k ? q : p;
		MUST(!mincore(at, bytes, vec));
		for (size_t n = 0; n < sizeof vec; n++)
			if (!(vec[n] & 1))
				fail("page %zu of %s is not resident after mlockall", n, k ? "new memory" : "old memory");
	}
	if (anonymous() > 2 * bytes + 24 * MIB)
		fail("%zu MiB are resident where %zu are mapped", anonymous() / MIB, 2 * bytes / MIB);
	check(p, bytes, TAG, 0, "old memory");
	fill(q, bytes, TAG, 5);
	press();
	for (int k = 0; k < 2; k++) {
		char *at = k ? q : p;
		MUST(!mincore(at, bytes, vec));
		for (size_t n = 0; n < sizeof vec; n++)
			if (!(vec[n] & 1))
				fail("page %zu of %s was not kept by mlockall", n, k ? "new memory" : "old memory");
	}
	MUST(!munlockall());
	press();
	check(p, bytes, TAG, 0, "memory that was locked");
	check(q, bytes, TAG, 5, "memory born locked");
	MUST(!munmap(p, bytes) && !munmap(q, bytes));
}

/* Several times: what is done to other memory at the same time differs. */
static void mlocked_all(void)
{
	for (int round = 0; round < 6; round++)
		mlock_all();
}

/* Huge pages, whole, in part, and made by hand. */
static void huge(void)
{
	size_t two = 2 * MIB, bytes = data_mib * MIB / two * two;
	char *raw = map(bytes + two), *p = (char *)(((uintptr_t)raw + two - 1) & ~(two - 1));
	madvise(p, bytes, MADV_HUGEPAGE);
	fill(p, bytes, TAG, 0);
	press();
	check(p, bytes, TAG, 0, "huge pages");
	for (size_t at = 0; at < bytes; at += two) {
		MUST(!madvise(p + at + 5 * PAGE, 100 * PAGE, MADV_DONTNEED));
		fill(p + at + 5 * PAGE, 100 * PAGE, TAG, at / PAGE + 5);
	}
	press();
	madvise(p, bytes, 25 /* COLLAPSE */);
	check(p, bytes, TAG, 0, "huge pages with holes");
	MUST(!mprotect(p + two / 2, bytes - two, PROT_READ));
	press();
	check(p, bytes, TAG, 0, "huge pages cut by a protection");
}

/* Far more addresses than memory. */
static void sparse(void)
{
	size_t bytes = 64ul << 30, step = bytes / 4096;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		cannot("no 64 GiB of addresses");
	for (size_t i = 0; i < 4096; i++)
		fill(p + i * step, PAGE, TAG, i);
	press();
	for (size_t i = 0; i < 4096; i++) {
		check(p + i * step, PAGE, TAG, i, "a sparse mapping");
		if (i % 16 == 0)
			check_zero(p + i * step + 9 * PAGE, PAGE, "between the pages of a sparse mapping");
	}
}

static char bss[12 << 20];
static char data[4 << 20] = { 1 };

/* .bss, .data and the heap lie beside file mappings, and hold bytes like any other. */
static void bss_and_heap(void)
{
	char *block[2000];
	char *b = (char *)(((uintptr_t)bss + PAGE - 1) & ~(PAGE - 1)), *d = (char *)(((uintptr_t)data + PAGE - 1) & ~(PAGE - 1));
	size_t bn = sizeof bss - PAGE, dn = sizeof data - PAGE;
	check_zero(b, bn, ".bss");
	fill(b, bn, 1, 0);
	fill(d, dn, 2, 0);
	for (size_t i = 0; i < 2000; i++) {
		block[i] = malloc(5000);
		MUST(block[i]);
		memset(block[i], (int)(i % 255), 5000);
	}
	for (int k = 0; k < 3; k++) {
		press();
		check(b, bn, 1, 0, ".bss");
		check(d, dn, 2, 0, ".data");
		for (size_t i = 0; i < 2000; i++)
			for (size_t n = 0; n < 5000; n += 97)
				if (block[i][n] != (char)(i % 255))
					fail("heap block %zu byte %zu is %d", i, n, block[i][n]);
	}
	char *old = sbrk((intptr_t)(8 * MIB));
	MUST(old != (char *)-1);
	char *h = (char *)(((uintptr_t)old + PAGE - 1) & ~(PAGE - 1));
	fill(h, 7 * MIB, 3, 0);
	press();
	check(h, 7 * MIB, 3, 0, "memory from sbrk");
}

/* Shared mappings and private ones of files are beside and stay right. */
static void file_mappings(void)
{
	size_t bytes = data_mib * MIB / 2;
	int fd = memfd_create("kernel", MFD_CLOEXEC);
	MUST(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	char *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char *v = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	MUST(s != MAP_FAILED && v != MAP_FAILED);
	fill(s, bytes, 1, 0);
	for (size_t i = 0; i < bytes / PAGE; i += 2)
		fill(v + i * PAGE, PAGE, 2, i);
	press();
	for (size_t i = 0; i < bytes / PAGE; i++)
		check(v + i * PAGE, PAGE, i & 1 ? 1 : 2, i, "a private file mapping");
	check(s, bytes, 1, 0, "a shared mapping");
	MUST(!madvise(v, bytes, MADV_DONTNEED));
	check(v, bytes, 1, 0, "a private file mapping after MADV_DONTNEED");
}

const struct mode memory_modes[] = {
	{ "dontneed", dontneed },     { "dontneed-race", dontneed_race }, { "dontneed-cold", dontneed_cold },
	{ "madv-free", madv_free },   { "protections", protections },	  { "mremap", mremap_whole },
	{ "mremap-part", mremap_part }, { "realloc", realloc_grows },	  { "map-fixed", map_fixed },
	{ "mlock", mlocked },	      { "mlockall", mlocked_all },	  { "huge", huge },
	{ "sparse", sparse },	      { "bss-heap", bss_and_heap },	  { "file-mappings", file_mappings },
	{ NULL, NULL },
};
