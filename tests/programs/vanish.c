/*
 * vanish MIB: fills MIB MiB, takes some of it away in a way that nobody is told of (guard regions, Linux 6.13), and reads
 * it. Ends with 3 where the kernel has no such regions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define GUARD_INSTALL 102
#define GUARD_REMOVE 103

int main(int argc, char **argv)
{
	size_t pages = (argc > 1 ? strtoull(argv[1], NULL, 10) : 64) * 256;
	char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 2;
	for (size_t n = 0; n < pages; n++)
		memset(p + n * PAGE, (int)(n % 255) + 1, PAGE);
	sleep(1); /* what was written last is resident */
	char *last = p + (pages - 1) * PAGE;
	for (int tries = 0; tries < 100; tries++) {
		*last = 1;
		if (madvise(last, PAGE, GUARD_INSTALL) || madvise(last, PAGE, GUARD_REMOVE))
			return 3;
		if (*(volatile char *)last == 1)
			continue; /* it was out, and came back */
		printf("read %d\n", *last);
		return 0;
	}
	return 4;
}
