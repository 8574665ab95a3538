/* What a member of one job may try against a process of another. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "stranger.h"

enum { NAMES = 64 };

static uint64_t found[NAMES], proofs[NAMES];

static int is_random(uint64_t word)
{
	return word >> 48 && word >> 48 != 0xffff;
}

/* What may be the number of a process among the variables of the library in it: the second word of its imprint, after its
 * standing and a count, and before the proof. How many there are; 0 if its memory may not be read. */
static int find_numbers(void)
{
	int maps = file_of(other, "maps"), mem = file_of(other, "mem"), count = 0, own = 0;
	FILE *lines = maps < 0 ? NULL : fdopen(maps, "r");
	char line[512], rights[8];
	uint64_t from, to, words[512];

	while (lines && mem >= 0 && fgets(line, sizeof line, lines)) {
		if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3)
			continue;
		own = strstr(line, "neap") || (own && !strchr(line, '/') && !strchr(line, '['));
		for (; own && rights[1] == 'w' && to - from < 1 << 20 && from < to; from += PAGE)
			for (int i = 1; pread(mem, words, PAGE, (off_t)from) == PAGE && i < 511; i++)
				if (!(words[i - 1] & 0xfff000003fffff00) && is_random(words[i]) && is_random(words[i + 1]) && count < NAMES) {
					found[count] = words[i];
					proofs[count++] = words[i + 1];
				}
	}
	return count;
}

/* A process of its own for each offer: one that is believed may be met once. */
static int is_believed(uint32_t purpose, uint64_t number, int lie)
{
	pid_t child = fork();
	int status = 0;

	if (!child)
		_exit(offer_as((struct hello) { magic, VERSION, purpose, 3, number, 0, number }, lie) >= 0);
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status);
}

/* Every word in the name of another, about all of the memory that it may have. Whether it is a name: the engine tells whoever
 * would be its child the proof that the other has, too. */
static int speak_for(uint64_t number, uint64_t proof)
{
	static const uint32_t purposes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0 };
	int known = 0;

	for (size_t i = 0; i < sizeof purposes / sizeof *purposes; i++) {
		struct hello hello = { magic, VERSION, purposes[i], 0, PAGE, 1ul << 47, number };
		struct welcome welcome = { 0 };
		int fd = dial(), got;

		if (fd < 0)
			continue;
		say(fd, &hello, sizeof hello, NULL, 0);
		known |= hear(fd, &welcome, sizeof welcome, i ? 20 : 5000, &got) == sizeof welcome && welcome.proof == proof;
		if (got >= 0)
			close(got);
		close(fd);
	}
	return known;
}

int neighbour(pid_t pid)
{
	int count, known = 0, believed = 0;

	other = pid;
	count = find_numbers();
	for (int i = 0; i < count; i++)
		known += speak_for(found[i], proofs[i]);
	for (int i = 0; i < count; i++) {
		believed += is_believed(2, found[i], HONEST) + is_believed(2, found[i], OTHER_FILES);
		believed += is_believed(11, found[i], HONEST) + is_believed(11, found[i], OTHER_FILES);
		is_believed(1, found[i], HONEST); /* it may join, as whoever's child */
		believed += is_believed(1, found[i], OTHER_FILES);
	}
	believed += is_believed(1, 0, OTHER_FILES) + is_believed(1, 0, OTHER_MEM);
	printf("neighbour: %d words, %d names, %d believed\n", count, known, believed);
	return believed;
}
