// A heap in a large reserve that nobody may touch: a part at a time is made usable, as an arena of malloc does. MIB
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PART = 128 << 10 };

int main(int argc, char **argv)
{
	size_t bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 20;
	unsigned char *heap = mmap(NULL, (size_t)1 << 36, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned long sum = 0;
	if (heap == MAP_FAILED)
		return 4;
	for (size_t at = 0; at < bytes; at += PART) {
		if (mprotect(heap + at, PART, PROT_READ | PROT_WRITE))
			return 5;
		memset(heap + at, (int)(at / PART & 63), PART);
	}
	for (int round = 0; round < 2; round++) {
		for (size_t at = 0; at < bytes; at += 4096) {
			if (heap[at + 9] != (at / PART & 63)) {
				printf("wrong at %zu\n", at);
				return 3;
			}
			sum += heap[at];
		}
	}
	printf("%lu\n", sum);
}
