/* The program's own system calls on pages that may be out. */
#include "torture.h"
#include <sys/socket.h>

static int scratch(void)
{
	if (me->file > 0)
		return me->file;
	me->file = open(G->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (me->file < 0)
		me->file = memfd_create("torture-scratch", MFD_CLOEXEC);
	if (me->file < 0)
		die("scratch file: %s", strerror(errno));
	return me->file;
}

static void whole(const char *what, ssize_t got, size_t want)
{
	if (got < 0)
		die("%s: %s", what, strerror(errno));
	if ((size_t)got != want)
		die("%s: %zd bytes of %zu", what, got, want);
}

/* What the pages must hold, as bytes in a buffer of the caller. */
static void expected(const struct region *r, uint32_t first, uint32_t n, char *out)
{
	for (uint32_t i = 0; i < n; i++)
		content(shadow_of(r) + first + i, (uint64_t *)(void *)(out + (size_t)i * PAGE), 0);
}

/* MADV_FREE leaves two answers; these operations want one. */
static void settle(struct region *r, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++)
		if (shadow_of(r)[i].state == P_FREED)
			write_pages(r, i, 1);
}

static void same(const char *want, const char *got, uint32_t n, const struct region *r, uint32_t first, const char *why)
{
	for (uint32_t i = 0; i < n; i++)
		if (memcmp(want + (size_t)i * PAGE, got + (size_t)i * PAGE, PAGE))
			die_page(shadow_of(r) + first + i, got + (size_t)i * PAGE, why);
}

#define IO_PAGES 16
struct io {
	char want[IO_PAGES * PAGE], got[IO_PAGES * PAGE];
};

static struct io *io_buffers(void)
{
	struct io *io = aligned_alloc(PAGE, sizeof *io);
	if (!io)
		die("out of memory");
	return io;
}

/* Pages to a file by write(2), other pages from it by read(2). */
void op_rw(void)
{
	struct region *r = pick(), *q = pick();
	uint32_t first, n;
	if (!r || !q)
		return;
	span(r, IO_PAGES, &first, &n);
	settle(r, first, n);
	int fd = scratch();
	struct io *io = io_buffers();
	expected(r, first, n, io->want);
	note('r', (uint64_t)r->addr, first, n);
	whole("pwrite", RETRY(pwrite(fd, r->addr + (size_t)first * PAGE, (size_t)n * PAGE, 0)), (size_t)n * PAGE);
	whole("pread", RETRY(pread(fd, io->got, (size_t)n * PAGE, 0)), (size_t)n * PAGE);
	same(io->want, io->got, n, r, first, "write(2) wrote wrong bytes");
	/* and the way in: new versions arrive by read(2) */
	span(q, IO_PAGES, &first, &n);
	for (uint32_t i = 0; i < n; i++)
		next_version(q, first + i);
	expected(q, first, n, io->want);
	whole("pwrite", RETRY(pwrite(fd, io->want, (size_t)n * PAGE, 0)), (size_t)n * PAGE);
	whole("pread into pages", RETRY(pread(fd, q->addr + (size_t)first * PAGE, (size_t)n * PAGE, 0)), (size_t)n * PAGE);
	verify_pages(q, first, n);
	free(io);
}

/* writev and readv, sendmsg and recvmsg, page by page in any order. */
void op_vec(void)
{
	struct region *r = pick(), *q = pick();
	struct iovec out[8], in[8];
	uint32_t n = 1 + below(8), src[8], dst[8];
	int fd[2], sock = (int)below(2);
	if (!r || !q || r->pages < n || q->pages < n)
		return;
	uint32_t from = below(r->pages - n + 1), to = below(q->pages - n + 1);
	if (r == q && from < to + n && to < from + n)
		return;
	if (sock ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) : pipe2(fd, O_CLOEXEC))
		die("socketpair: %s", strerror(errno));
	struct io *io = io_buffers();
	settle(r, from, n);
	for (uint32_t i = 0; i < n; i++) {
		src[i] = from + (i * 3 + n) % n;
		dst[i] = to + i;
		expected(r, src[i], 1, io->want + (size_t)i * PAGE);
		out[i] = (struct iovec){ r->addr + (size_t)src[i] * PAGE, PAGE };
		in[i] = (struct iovec){ q->addr + (size_t)dst[i] * PAGE, PAGE };
	}
	note('V', (uint64_t)r->addr, (uint64_t)q->addr, n);
	struct msghdr m = { .msg_iov = out, .msg_iovlen = n };
	whole("sendmsg", sock ? RETRY(sendmsg(fd[0], &m, 0)) : RETRY(writev(fd[1], out, (int)n)), (size_t)n * PAGE);
	size_t got = 0;
	while (got < (size_t)n * PAGE) {
		uint32_t i = (uint32_t)(got / PAGE), off = (uint32_t)(got % PAGE);
		struct iovec rest[8];
		memcpy(rest, in + i, (n - i) * sizeof *in);
		rest[0].iov_base = (char *)rest[0].iov_base + off;
		rest[0].iov_len -= off;
		struct msghdr w = { .msg_iov = rest, .msg_iovlen = n - i };
		ssize_t g = sock ? RETRY(recvmsg(fd[1], &w, 0)) : RETRY(readv(fd[0], rest, (int)(n - i)));
		if (g <= 0)
			die("readv into pages: %s", g ? strerror(errno) : "end of file");
		got += (size_t)g;
	}
	for (uint32_t i = 0; i < n; i++)
		same(io->want + (size_t)i * PAGE, q->addr + (size_t)dst[i] * PAGE, 1, r, src[i], "readv or recvmsg: wrong bytes");
	write_pages(q, to, n);
	free(io);
	close(fd[0]);
	close(fd[1]);
}

/* Straight between the disk and the pages. */
void op_direct(void)
{
	struct region *r = pick();
	uint32_t first, n;
	if (!r)
		return;
	if (me->direct == 0) {
		me->direct = open(G->dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
		if (me->direct < 0)
			me->direct = -1;
	}
	if (me->direct < 0) {
		skip("no O_DIRECT there");
		return;
	}
	span(r, IO_PAGES, &first, &n);
	settle(r, first, n);
	struct io *io = io_buffers();
	char *at = r->addr + (size_t)first * PAGE;
	size_t len = (size_t)n * PAGE;
	expected(r, first, n, io->want);
	note('o', (uint64_t)at, n, 0);
	whole("O_DIRECT write", RETRY(pwrite(me->direct, at, len, 0)), len);
	whole("O_DIRECT read", RETRY(pread(me->direct, io->got, len, 0)), len);
	same(io->want, io->got, n, r, first, "O_DIRECT wrote wrong bytes");
	for (uint32_t i = 0; i < n; i++)
		next_version(r, first + i);
	expected(r, first, n, io->want);
	whole("O_DIRECT write", RETRY(pwrite(me->direct, io->want, len, 0)), len);
	whole("O_DIRECT read into pages", RETRY(pread(me->direct, at, len, 0)), len);
	verify_pages(r, first, n);
	free(io);
}

/* vmsplice leaves references to our pages in a pipe; they are read out while the
 * pages stay unchanged, as vmsplice asks. */
void op_splice(void)
{
	struct region *r = pick();
	uint32_t first, n;
	int fd[2];
	if (!r)
		return;
	span(r, 8, &first, &n);
	settle(r, first, n);
	if (pipe2(fd, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	struct io *io = io_buffers();
	expected(r, first, n, io->want);
	struct iovec v = { r->addr + (size_t)first * PAGE, (size_t)n * PAGE };
	note('S', (uint64_t)v.iov_base, n, 0);
	ssize_t put = RETRY(vmsplice(fd[1], &v, 1, SPLICE_F_NONBLOCK));
	if (put < 0)
		die("vmsplice: %s", strerror(errno));
	usleep(below(2000)); /* the pages may leave now */
	ssize_t got = 0;
	while (got < put) {
		ssize_t g = RETRY(read(fd[0], io->got + got, (size_t)(put - got)));
		if (g <= 0)
			die("read of a vmspliced pipe: %s", strerror(errno));
		got += g;
	}
	same(io->want, io->got, (uint32_t)(put / PAGE), r, first, "a page given by vmsplice reads wrong");
	verify_pages(r, first, n);
	free(io);
	close(fd[0]);
	close(fd[1]);
}

/* process_vm_readv and writev on ourselves. */
void op_pvm(void)
{
	struct region *r = pick();
	uint32_t first, n;
	if (!r)
		return;
	span(r, IO_PAGES, &first, &n);
	settle(r, first, n);
	struct io *io = io_buffers();
	struct iovec far = { r->addr + (size_t)first * PAGE, (size_t)n * PAGE }, near = { io->got, far.iov_len };
	note('q', (uint64_t)far.iov_base, n, 0);
	expected(r, first, n, io->want);
	ssize_t got = process_vm_readv(getpid(), &near, 1, &far, 1, 0);
	if (got < 0 && errno != EFAULT && errno != EPERM && errno != ENOSYS)
		die("process_vm_readv: %s", strerror(errno));
	/* it may stop early, it may not lie */
	if (got > 0)
		same(io->want, io->got, (uint32_t)(got / PAGE), r, first, "process_vm_readv: wrong bytes");
	verify_pages(r, first, n);
	free(io);
}

/* /proc/self/mem: refusing is allowed (and documented), wrong bytes are not. */
void op_selfmem(void)
{
	struct region *r = pick();
	uint32_t first, n;
	if (!r)
		return;
	span(r, 4, &first, &n);
	settle(r, first, n);
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	struct io *io = io_buffers();
	char *at = r->addr + (size_t)first * PAGE;
	expected(r, first, n, io->want);
	note('M', (uint64_t)at, n, 0);
	ssize_t got = RETRY(pread(fd, io->got, (size_t)n * PAGE, (off_t)(uintptr_t)at));
	if (got > 0)
		same(io->want, io->got, (uint32_t)(got / PAGE), r, first, "/proc/self/mem reads wrong bytes");
	for (uint32_t i = 0; i < n; i++) {
		/* whole pages: a write that is refused leaves the old version */
		struct shadow old = shadow_of(r)[first + i];
		next_version(r, first + i);
		expected(r, first + i, 1, io->want);
		ssize_t put = RETRY(pwrite(fd, io->want, PAGE, (off_t)(uintptr_t)(at + (size_t)i * PAGE)));
		if (put <= 0)
			shadow_of(r)[first + i] = old;
		else if (put < (ssize_t)PAGE)
			write_pages(r, first + i, 1);
	}
	verify_pages(r, first, n);
	free(io);
	close(fd);
}
