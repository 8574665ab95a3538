/*
 * traced MIB: fills MIB MiB and has the kernel read each page in order, twice, by a system call each: for whoever traces
 * it and reads what its calls are given.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv)
{
	size_t pages = (argc > 1 ? strtoull(argv[1], NULL, 10) : 32) * 256;
	char *p = malloc(pages * PAGE);
	int nowhere = open("/dev/null", O_WRONLY);
	if (!p || nowhere < 0)
		return 2;
	for (size_t i = 0; i < pages; i++)
		memset(p + i * PAGE, i % 251, PAGE);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < pages; i++)
			if (write(nowhere, p + i * PAGE + 8, 64) != 64)
				return 2;
	for (size_t i = 0; i < pages; i++)
		if (p[i * PAGE + 9] != (char)(i % 251))
			return 3;
	puts("ok");
	return 0;
}
