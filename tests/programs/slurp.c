/*
 * slurp FILE [pread|fread|again]: reads all of FILE into fresh memory by one call of read(2), or by that one, and says how
 * many bytes came and their sum. With "again" it reads until it is killed, and rests in between.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t get(int file, unsigned char *bytes, size_t size, const char *how)
{
	if (!strcmp(how, "pread"))
		return pread(file, bytes, size, 0);
	if (!strcmp(how, "fread")) {
		FILE *stream = fdopen(file, "r");
		return stream ? (ssize_t)fread(bytes, 1, size, stream) : -1;
	}
	while (!strcmp(how, "again") && pread(file, bytes, size, 0) >= 0)
		usleep(50000);
	return read(file, bytes, size);
}

int main(int argc, char **argv)
{
	struct stat facts;
	int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	if (file < 0 || fstat(file, &facts))
		return 2;
	unsigned char *bytes = malloc((size_t)facts.st_size);
	ssize_t got = bytes ? get(file, bytes, (size_t)facts.st_size, argc > 2 ? argv[2] : "read") : -1;
	uint64_t sum = 0;
	for (ssize_t i = 0; i < got; i++)
		sum = sum * 31 + bytes[i];
	printf("slurp: %zd bytes, sum %016llx\n", got, (unsigned long long)sum);
	return got != facts.st_size;
}
