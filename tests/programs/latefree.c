/*
 * latefree MIB: fills MIB MiB, and makes small mappings that it declares free (MADV_FREE) at once, before anybody else
 * can know of them, and has the kernel drop. Zeros are then what they hold, and nothing is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 512
#define PAGEOUT 21

int main(int argc, char **argv)
{
	size_t pages = (argc > 1 ? strtoull(argv[1], NULL, 10) : 96) * 256, wrong = 0, dropped = 0;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
	char *p = mmap(NULL, pages * PAGE, both, flags, -1, 0);
	if (p == MAP_FAILED)
		return 2;
	for (size_t n = 0; n < pages; n++)
		memset(p + n * PAGE, (int)(n % 251) + 1, PAGE);
	sleep(1);
	for (int round = 0; round < 3; round++) {
		/* Apart from other mappings, so that the kernel joins it with none. */
		char *q = mmap(NULL, (PAGES + 2) * PAGE, PROT_NONE, flags, -1, 0);
		if (q == MAP_FAILED || mprotect(q += PAGE, PAGES * PAGE, both))
			return 2;
		memset(q, 7, PAGES * PAGE);
		if (madvise(q, PAGES * PAGE, MADV_FREE))
			return 3;
		usleep(500000);
		/* Past the library, which would have neap take them out. */
		if (syscall(SYS_madvise, q, PAGES * PAGE, PAGEOUT))
			return 3;
		for (size_t n = 0; n < PAGES; n++) {
			char byte = *(volatile char *)(q + n * PAGE);
			dropped += byte == 0;
			wrong += byte != 0 && byte != 7;
		}
	}
	for (size_t n = 0; n < pages; n++)
		wrong += p[n * PAGE + 9] != (char)(n % 251 + 1);
	printf("%zu wrong\n", wrong);
	return wrong ? 1 : dropped ? 0 : 4;
}
