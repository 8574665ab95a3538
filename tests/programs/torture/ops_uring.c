/* io_uring by its system calls: buffers that may be out, plain and registered. */
#include "torture.h"
#include <linux/io_uring.h>

struct ring {
	int fd;
	uint32_t *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	char *sq_map, *sqe_map;
	size_t sq_len, sqe_len;
};

static int ring_open(struct ring *u)
{
	struct io_uring_params p;
	memset(&p, 0, sizeof p);
	u->fd = (int)syscall(SYS_io_uring_setup, 8, &p);
	if (u->fd < 0)
		return -1;
	u->sq_len = p.sq_off.array + p.sq_entries * 4;
	size_t cq = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	if (cq > u->sq_len)
		u->sq_len = cq;
	u->sqe_len = p.sq_entries * sizeof(struct io_uring_sqe);
	u->sq_map = mmap(NULL, u->sq_len, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, IORING_OFF_SQ_RING);
	u->sqe_map = mmap(NULL, u->sqe_len, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, IORING_OFF_SQES);
	if (u->sq_map == MAP_FAILED || u->sqe_map == MAP_FAILED)
		die("mmap of a ring: %s", strerror(errno));
	u->sq_tail = (uint32_t *)(void *)(u->sq_map + p.sq_off.tail);
	u->sq_mask = (uint32_t *)(void *)(u->sq_map + p.sq_off.ring_mask);
	u->sq_array = (uint32_t *)(void *)(u->sq_map + p.sq_off.array);
	u->cq_head = (uint32_t *)(void *)(u->sq_map + p.cq_off.head);
	u->cq_tail = (uint32_t *)(void *)(u->sq_map + p.cq_off.tail);
	u->cq_mask = (uint32_t *)(void *)(u->sq_map + p.cq_off.ring_mask);
	u->cqes = (struct io_uring_cqe *)(void *)(u->sq_map + p.cq_off.cqes);
	u->sqes = (struct io_uring_sqe *)(void *)u->sqe_map;
	return 0;
}

static void ring_close(struct ring *u)
{
	munmap(u->sq_map, u->sq_len);
	munmap(u->sqe_map, u->sqe_len);
	close(u->fd);
}

/* One request, and its result. */
static int ring_do(struct ring *u, struct io_uring_sqe sqe)
{
	uint32_t tail = *u->sq_tail, i = tail & *u->sq_mask;
	u->sqes[i] = sqe;
	u->sq_array[i] = i;
	__atomic_store_n(u->sq_tail, tail + 1, __ATOMIC_RELEASE);
	uint32_t submit = 1;
	while (__atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE) == *u->cq_head) {
		long r = syscall(SYS_io_uring_enter, u->fd, submit, 1, IORING_ENTER_GETEVENTS, NULL, 0);
		if (r < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY)
			die("io_uring_enter: %s", strerror(errno));
		if (r > 0) /* an interrupted wait after a submission returns the submission's count */
			submit = 0;
	}
	uint32_t head = *u->cq_head;
	int res = u->cqes[head & *u->cq_mask].res;
	__atomic_store_n(u->cq_head, head + 1, __ATOMIC_RELEASE);
	return res;
}

static struct io_uring_sqe request(uint8_t op, int fd, char *at, size_t len, int async)
{
	struct io_uring_sqe sqe;
	memset(&sqe, 0, sizeof sqe);
	sqe.opcode = op;
	sqe.fd = fd;
	sqe.addr = (uint64_t)(uintptr_t)at;
	sqe.len = (uint32_t)len;
	sqe.flags = async ? IOSQE_ASYNC : 0;
	return sqe;
}

/* A request for a kernel thread is cancelled (ECANCELED) if a signal meets the
 * thread's creation: asked again, the last time without one. */
static int transfer(struct ring *u, uint8_t op, int fd, char *at, size_t len, int async)
{
	int res = -ECANCELED;
	for (int tries = 0; tries < 10 && (res == -ECANCELED || res == -EAGAIN || res == -EINTR); tries++)
		res = ring_do(u, request(op, fd, at, len, async && tries < 9));
	return res;
}

static void round_trip(struct ring *u, int fd, struct region *r, uint32_t first, uint32_t n, int fixed)
{
	char *at = r->addr + (size_t)first * PAGE;
	size_t len = (size_t)n * PAGE;
	int async = (int)below(2);
	uint64_t want[WORDS], got[WORDS];
	int res = transfer(u, fixed ? IORING_OP_WRITE_FIXED : IORING_OP_WRITE, fd, at, len, async);
	if (res != (int)len)
		die("io_uring write of %zu bytes: %d", len, res);
	for (uint32_t i = 0; i < n; i++) {
		content(shadow_of(r) + first + i, want, 0);
		if (RETRY(pread(fd, got, PAGE, (off_t)i * PAGE)) != PAGE)
			die("pread: %s", strerror(errno));
		if (memcmp(want, got, PAGE))
			die_page(shadow_of(r) + first + i, (char *)got, "io_uring wrote wrong bytes");
	}
	for (uint32_t i = 0; i < n; i++) {
		next_version(r, first + i);
		content(shadow_of(r) + first + i, want, 0);
		if (RETRY(pwrite(fd, want, PAGE, (off_t)i * PAGE)) != PAGE)
			die("pwrite: %s", strerror(errno));
	}
	if (fixed)
		usleep(below(1000)); /* pinned pages meet the evictor */
	res = transfer(u, fixed ? IORING_OP_READ_FIXED : IORING_OP_READ, fd, at, len, async);
	if (res != (int)len)
		die("io_uring read of %zu bytes: %d", len, res);
	verify_pages(r, first, n);
}

void op_uring(void)
{
	struct region *r = pick();
	struct ring u;
	uint32_t first, n;
	if (!r)
		return;
	span(r, 8, &first, &n);
	for (uint32_t i = first; i < first + n; i++)
		if (shadow_of(r)[i].state == P_FREED)
			write_pages(r, i, 1);
	if (ring_open(&u)) {
		skip("no io_uring");
		return;
	}
	int fd = open(G->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = memfd_create("torture-uring", MFD_CLOEXEC);
	int fixed = (int)below(2);
	note('U', (uint64_t)r->addr + (uint64_t)first * PAGE, n, (uint64_t)fixed);
	if (fixed) {
		struct iovec v = { r->addr + (size_t)first * PAGE, (size_t)n * PAGE };
		if (syscall(SYS_io_uring_register, u.fd, IORING_REGISTER_BUFFERS, &v, 1)) {
			if (errno != ENOMEM)
				die("registering buffers: %s", strerror(errno));
			fixed = 0; /* more locked memory than allowed */
		}
	}
	round_trip(&u, fd, r, first, n, fixed);
	close(fd);
	ring_close(&u);
	verify_pages(r, first, n);
}
