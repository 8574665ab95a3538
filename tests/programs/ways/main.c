/*
 * ways WAY MIB: one way in which a private page comes to be, for MIB of memory. Prints how many pages were wrong.
 * `ways list` prints the ways.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ways.h"

#define WAY(name) { #name, name }

static const struct {
	const char *name;
	long (*fill)(size_t);
} ways[] = {
	WAY(populated_for_reading),
	WAY(read_then_written),
	WAY(read_and_written_in_turn),
	WAY(read_once_registered),
	WAY(read_in_huge_pages),
	WAY(read_and_moved),
	WAY(read_and_forked),
	WAY(read_by_many),
	WAY(mapped_populated),
	WAY(populated_for_writing),
	WAY(read_from_a_file),
	WAY(read_directly),
	WAY(read_by_a_ring),
	WAY(written_by_another),
	WAY(received_from_a_pipe),
	WAY(grown_by_mremap),
	WAY(grown_by_brk),
	WAY(grown_by_brk_in_steps),
	WAY(on_the_stack),
	WAY(in_huge_pages),
	WAY(committed_in_steps),
	WAY(mapped_over),
	WAY(mapped_into_a_reserve),
	WAY(in_the_data_segment),
	WAY(mapped_populated_past_libc),
	WAY(in_a_mapping_of_a_file),
};

void must(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(2);
	}
}

char *fresh(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(at == MAP_FAILED, "mmap");
	return at;
}

void write_page(char *at, size_t page)
{
	memset(at, (int)(1 + page % 251), PAGE);
	memcpy(at + 128, &page, sizeof page);
}

int wrong_page(const char *at, size_t page)
{
	size_t got;
	memcpy(&got, at + 128, sizeof got);
	return got != page || at[0] != (char)(1 + page % 251) ||
	       at[PAGE - 1] != at[0];
}

long check(const char *at, size_t bytes)
{
	long wrong = 0;
	for (size_t i = 0; i < bytes / PAGE; i++)
		wrong += wrong_page(at + i * PAGE, i);
	return wrong;
}

long write_and_check(char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes / PAGE; i++)
		write_page(at + i * PAGE, i);
	return check(at, bytes);
}

int small_file(size_t bytes, int flags)
{
	char name[] = "/var/tmp/neap-ways-XXXXXX", page[PAGE];
	int writes = mkstemp(name);
	must(writes < 0, "mkstemp");
	for (size_t i = 0; i < bytes / PAGE; i++) {
		write_page(page, i);
		must(write(writes, page, PAGE) != (long)PAGE, "write");
	}
	must(fsync(writes) != 0, "fsync");
	int reads = open(name, O_RDONLY | flags);
	must(reads < 0, "open");
	unlink(name);
	close(writes);
	return reads;
}

int main(int argc, char **argv)
{
	const size_t count = sizeof ways / sizeof *ways;
	for (size_t i = 0; i < count; i++) {
		if (argc == 2)
			puts(ways[i].name);
		else if (argc == 3 && strcmp(argv[1], ways[i].name) == 0) {
			long wrong = ways[i].fill((size_t)atol(argv[2]) * MIB);
			printf("%ld wrong\n", wrong);
			return wrong != 0;
		}
	}
	return argc == 2 ? 0 : 2;
}
