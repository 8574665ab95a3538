/* Mappings that come, grow or change. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ways.h"

#define STEP (4 * MIB)
#define PAGES_OF_A_FILE 512ul

static char data_segment[256 * MIB];

static long check_steps(const char *at, size_t bytes)
{
	long wrong = 0;
	for (size_t i = 0; i < bytes; i += STEP)
		wrong += check(at + i, STEP);
	return wrong;
}

long grown_by_mremap(size_t bytes)
{
	char *at = fresh(STEP);
	long wrong = write_and_check(at, STEP);
	for (size_t size = STEP; size < bytes; size += STEP) {
		at = mremap(at, size, size + STEP, MREMAP_MAYMOVE);
		must(at == MAP_FAILED, "mremap");
		wrong += write_and_check(at + size, STEP);
	}
	return wrong + check_steps(at, bytes);
}

long grown_by_brk(size_t bytes)
{
	char *at = sbrk((intptr_t)(bytes + PAGE));
	must(at == (void *)-1, "sbrk");
	at += -(uintptr_t)at % PAGE;
	return write_and_check(at, bytes);
}

long grown_by_brk_in_steps(size_t bytes)
{
	char *now = sbrk(0), *at = NULL;
	must(sbrk((intptr_t)(-(uintptr_t)now % PAGE)) == (void *)-1, "sbrk");
	long wrong = 0;
	for (size_t size = 0; size < bytes; size += STEP) {
		char *more = sbrk((intptr_t)STEP);
		must(more == (void *)-1, "sbrk");
		at = at ? at : more;
		wrong += write_and_check(more, STEP);
	}
	return wrong + check_steps(at, bytes);
}

/* Frames of 64 pages, which the compiler must not join. */
static __attribute__((noinline)) long frames(size_t left)
{
	char frame[64 * PAGE + PAGE], *at = frame + -(uintptr_t)frame % PAGE;
	long wrong = write_and_check(at, 64 * PAGE);
	if (left > 64 * PAGE)
		wrong += frames(left - 64 * PAGE);
	return wrong + check(at, 64 * PAGE);
}

long on_the_stack(size_t bytes)
{
	/* The kernel keeps 128 MiB below the stack free. */
	bytes = bytes < 96 * MIB ? bytes : 96 * MIB;
	struct rlimit stack;
	must(getrlimit(RLIMIT_STACK, &stack) != 0, "getrlimit");
	stack.rlim_cur = bytes + 16 * MIB;
	must(setrlimit(RLIMIT_STACK, &stack) != 0, "setrlimit");
	return frames(bytes);
}

long in_huge_pages(size_t bytes)
{
	char *at = fresh(bytes);
	madvise(at, bytes, MADV_HUGEPAGE);
	return write_and_check(at, bytes);
}

long committed_in_steps(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(at == MAP_FAILED, "mmap");
	long wrong = 0;
	for (size_t i = 0; i < bytes; i += STEP) {
		must(mprotect(at + i, STEP, PROT_READ | PROT_WRITE) != 0, "mprotect");
		wrong += write_and_check(at + i, STEP);
	}
	return wrong + check_steps(at, bytes);
}

long mapped_over(size_t bytes)
{
	char *at = fresh(bytes);
	long wrong = write_and_check(at, bytes);
	for (size_t i = 0; i < bytes; i += STEP) {
		void *again = mmap(at + i, STEP, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		must(again == MAP_FAILED, "mmap");
		wrong += write_and_check(at + i, STEP);
	}
	return wrong + check_steps(at, bytes);
}

/* As the allocators of sanitizers and of Go do: no function of libc is called. */
long mapped_into_a_reserve(size_t bytes)
{
	enum { CHUNK = 64 << 10 };
	char *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(at == MAP_FAILED, "mmap");
	long wrong = 0;
	for (size_t i = 0; i < bytes; i += CHUNK) {
		long again = syscall(SYS_mmap, at + i, (size_t)CHUNK, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L);
		must(again < 0, "mmap");
		wrong += write_and_check(at + i, CHUNK);
	}
	return wrong;
}

long in_a_mapping_of_a_file(size_t bytes)
{
	int file = small_file(PAGES_OF_A_FILE * PAGE, 0);
	long wrong = 0;
	/* The same pages of the file again and again: each is copied at the first write. */
	for (size_t i = 0; i < bytes / PAGE; i += PAGES_OF_A_FILE) {
		char *at = mmap(NULL, PAGES_OF_A_FILE * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
		must(at == MAP_FAILED, "mmap");
		wrong += write_and_check(at, PAGES_OF_A_FILE * PAGE);
	}
	return wrong;
}

long in_the_data_segment(size_t bytes)
{
	char *at = data_segment + -(uintptr_t)data_segment % PAGE;
	bytes = bytes < sizeof data_segment - PAGE ? bytes : sizeof data_segment - PAGE;
	return write_and_check(at, bytes);
}
