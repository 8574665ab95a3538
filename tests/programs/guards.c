/*
 * guards MIB: makes every eighth page of MIB MiB a guard region (Linux 6.13) after it was written, and every fortieth of
 * MIB MiB that were never written, writes to all pages around them, and says how many guards let it through. Ends with
 * 3 where the kernel has no such regions.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL
#define GUARD_INSTALL 102

static sigjmp_buf refused;

static void on_segv(int signal)
{
	(void)signal;
	siglongjmp(refused, 1);
}

static volatile size_t n, open_guards, guards, wrong;

static void guard(char *p, size_t pages, size_t every)
{
	for (size_t i = every - 1; i < pages; i += every)
		if (madvise(p + i * PAGE, PAGE, GUARD_INSTALL))
			exit(3);
}

static void around(char *p, size_t pages, size_t every, int written)
{
	for (size_t i = 0; i < pages; i++) {
		if (i % every == every - 1)
			continue;
		wrong += p[i * PAGE] != (written ? (char)(i % 251 + 1) : 0);
		p[i * PAGE] = 5;
	}
}

static void into(char *p, size_t pages, size_t every)
{
	for (n = every - 1; n < pages; n += every) {
		guards++;
		if (!sigsetjmp(refused, 1)) {
			*(volatile char *)(p + n * PAGE) = 1;
			open_guards++;
		}
	}
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 64, pages = mib * 256;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *old = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, flags, -1, 0);
	char *new = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, flags, -1, 0);
	struct sigaction action = {.sa_handler = on_segv, .sa_flags = SA_NODEFER};
	if (old == MAP_FAILED || new == MAP_FAILED || sigaction(SIGSEGV, &action, NULL))
		return 2;
	for (size_t i = 0; i < pages; i++)
		memset(old + i * PAGE, (int)(i % 251) + 1, PAGE);
	usleep(500000); /* both are found by now */
	guard(old, pages, 8);
	guard(new, pages, 40);
	around(old, pages, 8, 1);
	into(old, pages, 8);
	for (size_t i = 0; i < pages; i++)
		if (i % 40 != 39)
			new[i * PAGE] = 0;
	around(new, pages, 40, 0);
	into(new, pages, 40);
	printf("%zu of %zu guards open, %zu wrong\n", open_guards, guards, wrong);
	return open_guards || wrong;
}
