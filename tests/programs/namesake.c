/*
 * A library to be preloaded, with functions of its own that are called as two of libc's, by which it means something else. It says what they
 * answer, before the program begins and when it ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

/* The header that has this one has a syscall, too. */
ssize_t write(int fd, const void *bytes, size_t count);

int clone(int number, int more)
{
	return number * 1000 + more;
}

long syscall(int number, int more)
{
	return number * 1000 + more;
}

__attribute__((constructor, destructor)) static void ask(void)
{
	char line[64];
	int length = snprintf(line, sizeof line, "%d %ld %ld\n", clone(5, 12), syscall(56, 7), syscall(57, 8));
	if (write(1, line, length) < 0)
		abort();
}
