/*
 * slurp FILE: reads all of FILE into fresh memory by one call of read(2), and says how many bytes came and their sum.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct stat facts;
	int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	if (file < 0 || fstat(file, &facts))
		return 2;
	unsigned char *bytes = malloc((size_t)facts.st_size);
	ssize_t got = bytes ? read(file, bytes, (size_t)facts.st_size) : -1;
	uint64_t sum = 0;
	for (ssize_t i = 0; i < got; i++)
		sum = sum * 31 + bytes[i];
	printf("slurp: %zd bytes, sum %016llx\n", got, (unsigned long long)sum);
	return got != facts.st_size;
}
