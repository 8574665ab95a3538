// Memory that cannot leave, read again and again for some seconds. KIND MIB, with KIND locked, readonly, executable or file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static unsigned char *of_file(size_t bytes)
{
	FILE *file = tmpfile();
	if (!file || ftruncate(fileno(file), (off_t)bytes))
		return MAP_FAILED;
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *kind = argv[1];
	size_t bytes = (size_t)atoi(argv[2]) << 20;
	int exec = strcmp(kind, "executable") ? 0 : PROT_EXEC;
	unsigned char *memory = strcmp(kind, "file")
		? mmap(NULL, bytes, PROT_READ | PROT_WRITE | exec, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
		: of_file(bytes);
	if (memory == MAP_FAILED)
		return 4;
	if (!strcmp(kind, "locked") && mlock(memory, bytes))
		return 5;
	for (size_t at = 0; at < bytes; at += 4096)
		memory[at] = 1 + at / 4096 % 100;
	if (!strcmp(kind, "readonly") && mprotect(memory, bytes, PROT_READ))
		return 6;
	for (time_t end = time(NULL) + 4; time(NULL) < end;) {
		for (size_t at = 0; at < bytes; at += 4096) {
			if (memory[at] != 1 + at / 4096 % 100) {
				printf("wrong at %zu\n", at);
				return 3;
			}
		}
	}
	printf("right\n");
}
