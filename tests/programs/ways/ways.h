/* Each way fills memory and returns how many pages were wrong when they were read back. */
#ifndef WAYS_H
#define WAYS_H

#include <stddef.h>

#define PAGE 4096ul
#define MIB (1ul << 20)

/* New private memory that nobody has touched. */
char *fresh(size_t bytes);
/* Writes page number `page`, at `at`. */
void write_page(char *at, size_t page);
/* Whether it is otherwise than written. */
int wrong_page(const char *at, size_t page);
/* Writes them all and reads them back. */
long write_and_check(char *at, size_t bytes);
long check(const char *at, size_t bytes);
/* A small file with the pages 0 to `bytes / PAGE`; opened with `flags` as well. */
int small_file(size_t bytes, int flags);
/* Ends the program with a message if `failed`. */
void must(int failed, const char *what);

/* Read before it is written. */
long populated_for_reading(size_t bytes);
long read_then_written(size_t bytes);
long read_and_written_in_turn(size_t bytes);
long read_once_registered(size_t bytes);
long read_in_huge_pages(size_t bytes);
long read_and_moved(size_t bytes);
long read_and_forked(size_t bytes);
long read_by_many(size_t bytes);
/* Filled by the kernel. */
long mapped_populated(size_t bytes);
long populated_for_writing(size_t bytes);
long read_from_a_file(size_t bytes);
long read_directly(size_t bytes);
long read_by_a_ring(size_t bytes);
long written_by_another(size_t bytes);
long received_from_a_pipe(size_t bytes);
/* What no userfaultfd holds back. */
long mapped_populated_past_libc(size_t bytes);
long in_a_mapping_of_a_file(size_t bytes);
/* Mappings that come or grow. */
long grown_by_mremap(size_t bytes);
long grown_by_brk(size_t bytes);
long grown_by_brk_in_steps(size_t bytes);
long on_the_stack(size_t bytes);
long in_huge_pages(size_t bytes);
long committed_in_steps(size_t bytes);
long mapped_over(size_t bytes);
long mapped_into_a_reserve(size_t bytes);
long in_the_data_segment(size_t bytes);

#endif
