// Fibers, each on a stack of its own with a guard page below it: two mappings each. FIBERS ROUNDS [own]
// `own`: the same memory as one mapping, without guards.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 16384, GUARD = 4096, HELD = 9000 };

static ucontext_t home;
static ucontext_t *fibers;
static unsigned count, rounds;
static unsigned long sum;

static void fiber(int me)
{
	unsigned char held[HELD];
	memset(held, me & 63, sizeof held);
	for (unsigned round = 0; round < rounds; round++) {
		swapcontext(&fibers[me], &home);
		for (unsigned i = 0; i < sizeof held; i += 100) {
			if (held[i] != (me & 63)) {
				printf("wrong in fiber %d\n", me);
				exit(3);
			}
			sum += held[i];
		}
		held[round] = (unsigned char)(me & 63);
	}
	swapcontext(&fibers[me], &home);
}

static char *stack_of(char *all, unsigned i)
{
	if (all)
		return all + (size_t)i * STACK;
	char *stack = mmap(NULL, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED || mprotect(stack, GUARD, PROT_NONE)) {
		printf("no stack for fiber %u\n", i);
		exit(4);
	}
	return stack + GUARD;
}

static void begin(unsigned i, char *stack)
{
	getcontext(&fibers[i]);
	fibers[i].uc_stack.ss_sp = stack;
	fibers[i].uc_stack.ss_size = STACK;
	makecontext(&fibers[i], (void (*)(void))fiber, 1, (int)i);
	swapcontext(&home, &fibers[i]);
}

int main(int argc, char **argv)
{
	count = (unsigned)atoi(argv[1]);
	rounds = (unsigned)atoi(argv[2]);
	char *all = NULL;
	if (argc > 3)
		all = mmap(NULL, (size_t)count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fibers = calloc(count, sizeof *fibers);
	for (unsigned i = 0; i < count; i++)
		begin(i, stack_of(all, i));
	for (unsigned round = 0; round < rounds; round++)
		for (unsigned i = 0; i < count; i++)
			swapcontext(&home, &fibers[i]);
	printf("%u fibers, %lu\n", count, sum);
}
