/*
 * kernel MODE: one point of what Linux promises a program about its memory, tried
 * while the memory is under pressure. Prints "kernel MODE: ok" and exits 0, or
 * says on standard error what was wrong and exits 1; 77 if the machine cannot.
 *
 * Sizes are in MiB: DATA is what a mode looks after, PRESS what it writes between
 * to push that out. Under `neap run -m LIMIT` with DATA < LIMIT < PRESS the data is
 * out each time.
 */
#ifndef KERNEL_H
#define KERNEL_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1ul << 20)
#define WORDS (PAGE / 8)
#define SKIPPED 77

extern size_t data_mib, press_mib;

void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Ends the mode as skipped. */
void cannot(const char *why) __attribute__((noreturn));
#define MUST(e) ((e) ? (void)0 : fail("%s:%d: %s: %s", __FILE__, __LINE__, #e, strerror(errno)))

/* Compressible contents that differ from page to page and tag to tag. */
uint64_t word(uint64_t tag, uint64_t page, uint64_t i);
void fill(void *at, size_t bytes, uint64_t tag, uint64_t first_page);
void check(const void *at, size_t bytes, uint64_t tag, uint64_t first_page, const char *what);
int matches(const void *page, uint64_t tag, uint64_t nr);
void check_zero(const void *at, size_t bytes, const char *what);
char *map(size_t bytes);
/* Pushes out whatever was not used for a while. */
void press(void);
/* Waits for a child and wants status 0 of it. */
void child_ok(pid_t pid, const char *what);

struct mode {
	const char *name;
	void (*run)(void);
};
extern const struct mode memory_modes[], process_modes[], call_modes[], thread_modes[];
#endif
