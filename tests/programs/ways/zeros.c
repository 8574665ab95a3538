/* Memory that is read before it is written: it has the kernel's page of zeros until then. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ways.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static long not_zero(const char *at, size_t bytes)
{
	long wrong = 0;
	for (size_t i = 0; i < bytes; i += PAGE)
		wrong += *(const volatile char *)(at + i) != 0;
	return wrong;
}

long populated_for_reading(size_t bytes)
{
	char *at = fresh(bytes);
	must(madvise(at, bytes, MADV_POPULATE_READ) != 0, "madvise");
	return write_and_check(at, bytes);
}

long read_then_written(size_t bytes)
{
	char *at = fresh(bytes);
	long wrong = not_zero(at, bytes);
	return wrong + write_and_check(at, bytes);
}

long read_and_written_in_turn(size_t bytes)
{
	char *at = fresh(bytes);
	long wrong = 0;
	for (size_t i = 0; i < bytes / PAGE; i++) {
		wrong += not_zero(at + i * PAGE, PAGE);
		write_page(at + i * PAGE, i);
	}
	return wrong + check(at, bytes);
}

/* What is registered by then is read and written in other places. */
long read_once_registered(size_t bytes)
{
	size_t first = bytes / 3;
	char *at = fresh(first);
	long wrong = write_and_check(at, first);
	usleep(100000);
	wrong += read_then_written(bytes);
	return wrong + check(at, first);
}

long read_in_huge_pages(size_t bytes)
{
	char *at = fresh(bytes);
	madvise(at, bytes, MADV_HUGEPAGE);
	long wrong = not_zero(at, bytes);
	return wrong + write_and_check(at, bytes);
}

/* Half of it before it is registered, and half after. */
long read_and_moved(size_t bytes)
{
	size_t half = bytes / 2;
	char *low = fresh(half), *high = fresh(half);
	long wrong = not_zero(low, half);
	low = mremap(low, half, half, MREMAP_MAYMOVE | MREMAP_FIXED, fresh(half));
	must(low == MAP_FAILED, "mremap");
	wrong += write_and_check(low, half) + not_zero(high, half);
	high = mremap(high, half, half, MREMAP_MAYMOVE | MREMAP_FIXED, fresh(half));
	must(high == MAP_FAILED, "mremap");
	return wrong + write_and_check(high, half) + check(low, half);
}

/* The child writes to what its parent has read, and the parent afterwards. */
long read_and_forked(size_t bytes)
{
	size_t half = bytes / 2;
	char *at = fresh(half), *other = fresh(half);
	long wrong = write_and_check(other, half) + not_zero(at, half);
	pid_t child = fork();
	if (child == 0)
		_exit(write_and_check(at, half) != 0);
	int status;
	must(waitpid(child, &status, 0) != child, "waitpid");
	wrong += (status != 0) + not_zero(at, half);
	return wrong + write_and_check(at, half) + check(other, half);
}

static struct {
	char *at;
	size_t bytes;
} shared;

static void *reads_all(void *unused)
{
	(void)unused;
	not_zero(shared.at, shared.bytes / 2); /* whatever it finds */
	return NULL;
}

/* One thread reads what another writes at the same time. */
long read_by_many(size_t bytes)
{
	shared.at = fresh(bytes);
	shared.bytes = bytes;
	long wrong = write_and_check(shared.at + bytes / 2, bytes / 2);
	pthread_t thread;
	must(pthread_create(&thread, NULL, reads_all, NULL) != 0, "a thread");
	wrong += write_and_check(shared.at, bytes / 2);
	pthread_join(thread, NULL);
	return wrong + check(shared.at, bytes / 2);
}
