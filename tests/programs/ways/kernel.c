/* Memory that the kernel fills for the program. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ways.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* What is read again and again. */
#define PIECE (2 * MIB)

long mapped_populated(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	must(at == MAP_FAILED, "mmap");
	return write_and_check(at, bytes);
}

long mapped_populated_past_libc(size_t bytes)
{
	long at = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	must(at == -1, "mmap");
	return write_and_check((char *)at, bytes);
}

long populated_for_writing(size_t bytes)
{
	char *at = fresh(bytes);
	must(madvise(at, bytes, MADV_POPULATE_WRITE) != 0, "madvise");
	return write_and_check(at, bytes);
}

static long check_pieces(const char *at, size_t bytes)
{
	long wrong = 0;
	for (size_t i = 0; i < bytes; i += PIECE)
		wrong += check(at + i, PIECE);
	return wrong;
}

static long read_pieces(size_t bytes, int flags)
{
	int file = small_file(PIECE, flags);
	char *at = fresh(bytes);
	for (size_t i = 0; i < bytes; i += PIECE)
		must(pread(file, at + i, PIECE, 0) != (long)PIECE, "pread");
	return check_pieces(at, bytes);
}

long read_from_a_file(size_t bytes)
{
	return read_pieces(bytes, 0);
}

long read_directly(size_t bytes)
{
	return read_pieces(bytes, O_DIRECT);
}

struct ring {
	int fd;
	unsigned *tail, *array, mask, *done_head, *done_tail, done_mask;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *done;
};

/* False: there is none here. */
static int make_ring(struct ring *ring)
{
	struct io_uring_params p;
	memset(&p, 0, sizeof p);
	ring->fd = (int)syscall(SYS_io_uring_setup, 4, &p);
	if (ring->fd < 0)
		return 0;
	char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE,
			MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
	char *cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof *ring->done,
			PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_CQ_RING);
	ring->entries = mmap(NULL, p.sq_entries * sizeof *ring->entries,
			     PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQES);
	must(sq == MAP_FAILED || cq == MAP_FAILED || (void *)ring->entries == MAP_FAILED, "mmap");
	ring->tail = (unsigned *)(sq + p.sq_off.tail);
	ring->mask = *(unsigned *)(sq + p.sq_off.ring_mask);
	ring->array = (unsigned *)(sq + p.sq_off.array);
	ring->done_head = (unsigned *)(cq + p.cq_off.head);
	ring->done_tail = (unsigned *)(cq + p.cq_off.tail);
	ring->done_mask = *(unsigned *)(cq + p.cq_off.ring_mask);
	ring->done = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	return 1;
}

static void read_by(struct ring *ring, int file, char *at)
{
	unsigned tail = *ring->tail, slot = tail & ring->mask;
	struct io_uring_sqe *entry = &ring->entries[slot];
	memset(entry, 0, sizeof *entry);
	entry->opcode = IORING_OP_READ;
	entry->fd = file;
	entry->addr = (uint64_t)(uintptr_t)at;
	entry->len = PIECE;
	ring->array[slot] = slot;
	__atomic_store_n(ring->tail, tail + 1, __ATOMIC_RELEASE);
	must(syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1,
	     "io_uring_enter");
	unsigned head = *ring->done_head;
	must(__atomic_load_n(ring->done_tail, __ATOMIC_ACQUIRE) == head, "no completion");
	must(ring->done[head & ring->done_mask].res != (int)PIECE, "a short read");
	__atomic_store_n(ring->done_head, head + 1, __ATOMIC_RELEASE);
}

long read_by_a_ring(size_t bytes)
{
	struct ring ring;
	if (!make_ring(&ring))
		return read_directly(bytes);
	int file = small_file(PIECE, O_DIRECT);
	char *at = fresh(bytes);
	for (size_t i = 0; i < bytes; i += PIECE)
		read_by(&ring, file, at + i);
	return check_pieces(at, bytes);
}

long written_by_another(size_t bytes)
{
	char *at = fresh(bytes), *piece = fresh(PIECE);
	for (size_t i = 0; i < PIECE / PAGE; i++)
		write_page(piece + i * PAGE, i);
	pid_t parent = getpid(), child = fork();
	if (child == 0) {
		for (size_t i = 0; i < bytes; i += PIECE) {
			struct iovec from = { piece, PIECE }, to = { at + i, PIECE };
			must(process_vm_writev(parent, &from, 1, &to, 1, 0) != (long)PIECE,
			     "process_vm_writev");
		}
		_exit(0);
	}
	int status;
	must(waitpid(child, &status, 0) != child, "waitpid");
	return (status != 0) + check_pieces(at, bytes);
}

long received_from_a_pipe(size_t bytes)
{
	int ends[2];
	char *from = fresh(bytes / 2), *to = fresh(bytes / 2);
	must(pipe(ends) != 0, "pipe");
	for (size_t i = 0; i < bytes / 2; i += 16 * PAGE) {
		for (size_t page = 0; page < 16; page++)
			write_page(from + i + page * PAGE, i / PAGE + page);
		struct iovec some = { from + i, 16 * PAGE };
		must(vmsplice(ends[1], &some, 1, 0) != (long)(16 * PAGE), "vmsplice");
		for (size_t got = 0; got < 16 * PAGE;) {
			ssize_t more = read(ends[0], to + i + got, 16 * PAGE - got);
			must(more <= 0, "read");
			got += (size_t)more;
		}
	}
	return check(from, bytes / 2) + check(to, bytes / 2);
}
