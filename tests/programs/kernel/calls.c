/* System calls of the program on memory that is out. */
#include "kernel.h"
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define TAG 51

static char *filled(size_t bytes)
{
	char *p = map(bytes);
	fill(p, bytes, TAG, 0);
	press();
	return p;
}

static int scratch(int flags)
{
	int fd = open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
	return fd;
}

/* write(2) from pages that are out, read(2) into them. */
static void write_read(void)
{
	size_t bytes = data_mib * MIB;
	char *p = filled(bytes), *q = filled(bytes);
	int fd = scratch(0);
	if (fd < 0)
		cannot("no scratch file");
	for (size_t at = 0; at < bytes; at += MIB)
		MUST(pwrite(fd, p + at, MIB, (off_t)at) == (ssize_t)MIB);
	fill(q, bytes, 9, 0);
	press();
	for (size_t at = 0; at < bytes; at += MIB)
		MUST(pread(fd, q + at, MIB, (off_t)at) == (ssize_t)MIB);
	check(q, bytes, TAG, 0, "read(2) of what write(2) took");
	check(p, bytes, TAG, 0, "memory that write(2) took");
}

/* Headers, vectors and addresses of messages lie in pages that are out as well. */
static void messages(void)
{
	size_t n = 400;
	int fd[2];
	char *p = map(2 * n * PAGE);
	for (size_t i = 0; i < n; i++)
		fill(p + 2 * i * PAGE, PAGE, TAG, i);
	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
	char *sent = map(n * PAGE), *got = map(n * PAGE);
	for (size_t i = 0; i < n; i++) {
		struct msghdr *m = (struct msghdr *)(void *)(sent + i * PAGE);
		struct iovec *v = (struct iovec *)(void *)(sent + i * PAGE + 256);
		*v = (struct iovec){ p + 2 * i * PAGE, PAGE };
		*m = (struct msghdr){ .msg_iov = v, .msg_iovlen = 1 };
	}
	for (size_t i = 0; i < n; i++) {
		if (i % 50 == 0)
			press();
		struct msghdr *m = (struct msghdr *)(void *)(sent + i * PAGE);
		MUST(sendmsg(fd[0], m, 0) == (ssize_t)PAGE);
		MUST(recv(fd[1], got + i * PAGE, PAGE, MSG_WAITALL) == (ssize_t)PAGE);
	}
	check(got, n * PAGE, TAG, 0, "received messages");
}

/* References in a pipe keep the bytes that were given, whatever becomes of the pages. */
static void vmspliced(void)
{
	size_t n = 8;
	char *p = filled(n * PAGE), *got = map(n * PAGE);
	int fd[2];
	for (uint64_t round = 0; round < 20; round++) {
		MUST(!pipe(fd));
		fill(p, n * PAGE, round, 0);
		if (round & 1)
			press();
		struct iovec v = { p, n * PAGE };
		ssize_t put = vmsplice(fd[1], &v, 1, SPLICE_F_NONBLOCK);
		MUST(put > 0);
		press();
		ssize_t have = 0;
		while (have < put) {
			ssize_t g = read(fd[0], got + have, (size_t)(put - have));
			MUST(g > 0);
			have += g;
		}
		check(got, (size_t)put / PAGE * PAGE, round, 0, "read from a vmspliced pipe");
		check(p, n * PAGE, round, 0, "memory given to vmsplice");
		close(fd[0]);
		close(fd[1]);
	}
}

/* /proc/self/mem and process_vm_readv: right bytes or an error. */
static void by_others(void)
{
	size_t bytes = data_mib * MIB;
	char *p = filled(bytes), *q = map(64 * PAGE);
	int fd = open("/proc/self/mem", O_RDONLY);
	MUST(fd >= 0);
	size_t refused = 0;
	for (size_t n = 0; n < bytes / PAGE; n += 3) {
		if (pread(fd, q, PAGE, (off_t)(uintptr_t)(p + n * PAGE)) == (ssize_t)PAGE)
			check(q, PAGE, TAG, n, "/proc/self/mem");
		else
			refused++;
	}
	printf("/proc/self/mem refused %s pages\n", refused ? "some" : "no");
	for (size_t n = 0; n + 64 < bytes / PAGE; n += 64) {
		struct iovec near = { q, 64 * PAGE }, far = { p + n * PAGE, 64 * PAGE };
		ssize_t got = process_vm_readv(getpid(), &near, 1, &far, 1, 0);
		if (got > 0)
			check(q, (size_t)got / PAGE * PAGE, TAG, n, "process_vm_readv");
	}
	check(p, bytes, TAG, 0, "memory others looked at");
}

/* The disk reads and writes the pages themselves. */
static void direct(void)
{
	size_t bytes = data_mib * MIB;
	int fd = scratch(O_DIRECT);
	if (fd < 0)
		cannot("no O_DIRECT there");
	char *p = filled(bytes), *q = map(bytes);
	for (size_t at = 0; at < bytes; at += MIB / 4)
		MUST(pwrite(fd, p + at, MIB / 4, (off_t)at) == (ssize_t)MIB / 4);
	fill(q, bytes, 3, 0);
	press();
	for (size_t at = 0; at < bytes; at += MIB / 4)
		MUST(pread(fd, q + at, MIB / 4, (off_t)at) == (ssize_t)MIB / 4);
	check(q, bytes, TAG, 0, "O_DIRECT");
	press();
	check(q, bytes, TAG, 0, "what O_DIRECT read, later");
}

/* Buffers registered with io_uring are pinned: they stay, and what the kernel puts
 * there afterwards is what the program reads. */
static void uring_registered(void)
{
	struct io_uring_params params = { 0 };
	size_t n = 64;
	int ring = (int)syscall(SYS_io_uring_setup, 4, &params), fd = scratch(0);
	if (ring < 0 || fd < 0)
		cannot("no io_uring");
	char *p = filled(n * PAGE), *w = map(n * PAGE);
	struct iovec v = { p, n * PAGE };
	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &v, 1))
		cannot("may not register buffers");
	char *sq = mmap(NULL, params.sq_off.array + 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	struct io_uring_sqe *sqe = mmap(NULL, 4 * sizeof *sqe, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	MUST(sq != MAP_FAILED && (void *)sqe != MAP_FAILED);
	for (uint64_t round = 0; round < 8; round++) {
		press();
		fill(w, n * PAGE, round, 0);
		MUST(pwrite(fd, w, n * PAGE, 0) == (ssize_t)(n * PAGE));
		memset(sqe, 0, sizeof *sqe);
		sqe->opcode = IORING_OP_READ_FIXED;
		sqe->fd = fd;
		sqe->addr = (uintptr_t)p;
		sqe->len = (unsigned)(n * PAGE);
		_Atomic unsigned *tail = (void *)(sq + params.sq_off.tail);
		((unsigned *)(void *)(sq + params.sq_off.array))[*tail & 3] = 0;
		*tail += 1;
		MUST(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
		check(p, n * PAGE, round, 0, "what io_uring read into registered memory");
	}
	close(ring);
	press();
	check(p, n * PAGE, 7, 0, "memory that was registered");
}

struct server {
	int fd;
	char *at;
	_Atomic int stop, served;
};

static void *serve(void *arg)
{
	struct server *s = arg;
	char *page = map(PAGE);
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	while (!s->stop) {
		struct uffd_msg m;
		if (poll(&p, 1, 5) <= 0 || read(s->fd, &m, sizeof m) != sizeof m || m.event != UFFD_EVENT_PAGEFAULT)
			continue;
		uint64_t at = m.arg.pagefault.address & ~(PAGE - 1);
		fill(page, PAGE, 8, (at - (uintptr_t)s->at) / PAGE);
		struct uffdio_copy c = { .dst = at, .src = (uintptr_t)page, .len = PAGE };
		while (ioctl(s->fd, UFFDIO_COPY, &c) && errno == EAGAIN)
			c.copy = 0;
		s->served++;
	}
	return NULL;
}

/* A program that has a userfaultfd of its own gets its own faults, all of them. */
static void own_userfaultfd(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct server s = { .fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK) };
	if (s.fd < 0)
		s.fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* USER_MODE_ONLY */);
	if (s.fd < 0)
		cannot("no userfaultfd for this user");
	size_t bytes = 4 * MIB;
	char *before = filled(data_mib * MIB);
	s.at = map(bytes);
	MUST(!ioctl(s.fd, UFFDIO_API, &api));
	struct uffdio_register r = { .range = { (uintptr_t)s.at, bytes }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	MUST(!ioctl(s.fd, UFFDIO_REGISTER, &r));
	pthread_t t;
	MUST(!pthread_create(&t, NULL, serve, &s));
	check(s.at, bytes, 8, 0, "memory the program serves itself");
	press();
	check(s.at, bytes, 8, 0, "memory the program serves itself, later");
	MUST(!madvise(s.at, bytes / 2, MADV_DONTNEED));
	check(s.at, bytes, 8, 0, "memory the program serves itself, discarded");
	s.stop = 1;
	pthread_join(t, NULL);
	if (s.served != (int)(bytes / PAGE * 3 / 2))
		fail("%d faults came, must be %lu", s.served, bytes / PAGE * 3 / 2);
	check(before, data_mib * MIB, TAG, 0, "the other memory");
}

/* mincore and pagemap may say what they like; getrusage and friends must not fail. */
static void asks(void)
{
	size_t bytes = data_mib * MIB;
	char *p = filled(bytes);
	unsigned char *vec = malloc(bytes / PAGE);
	MUST(vec && !mincore(p, bytes, vec));
	FILE *f = fopen("/proc/self/smaps", "r");
	MUST(f);
	char line[512];
	size_t lines = 0;
	while (fgets(line, sizeof line, f))
		lines++;
	MUST(lines > 100);
	fclose(f);
	check(p, bytes, TAG, 0, "memory that was asked about");
	MUST(!madvise(p, bytes, MADV_WILLNEED));
	MUST(!madvise(p, bytes, 20 /* COLD */));
	madvise(p, bytes, 21 /* PAGEOUT */);
	check(p, bytes, TAG, 0, "memory called cold");
	press();
	madvise(p, bytes, 22 /* POPULATE_READ */);
	check(p, bytes, TAG, 0, "memory populated");
	press();
	madvise(p, bytes, 23 /* POPULATE_WRITE */);
	check(p, bytes, TAG, 0, "memory populated to write");
}

const struct mode call_modes[] = {
	{ "write-read", write_read }, { "messages", messages },		  { "vmsplice", vmspliced },
	{ "by-others", by_others },   { "direct", direct },		  { "uring-registered", uring_registered },
	{ "own-userfaultfd", own_userfaultfd }, { "asks", asks },	  { NULL, NULL },
};
