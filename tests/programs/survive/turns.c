/* Changes of mappings take turns. A turn is lost neither to a thread that jumps out of its change or ends in the midst
 * of one, nor to a fork. */
#include "survive.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 40
#define PIECE (8 * PAGE)

static atomic_int stop;
static _Thread_local sigjmp_buf out;
static _Thread_local volatile sig_atomic_t may_jump;

static void jump(int signal)
{
	(void)signal;
	if (!may_jump)
		return;
	may_jump = 0;
	siglongjmp(out, 1);
}

/* Says what is wrong, and counts it. */
static size_t unless(int right, const char *what, int value)
{
	if (right)
		return 0;
	sig_atomic_t jumps = may_jump;
	may_jump = 0; /* not out of stdio */
	fprintf(stderr, "process %d: %s: %d\n", getpid(), what, value);
	may_jump = jumps;
	return 1;
}

/* Maps, writes, moves and unmaps. */
static size_t change(void)
{
	char *at = fresh(PIECE);
	at[PAGE] = 7;
	char *room = fresh(PIECE);
	char *moved = mremap(at, PIECE, PIECE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
	if (moved == MAP_FAILED)
		return unless(0, "mremap", errno);
	char byte = moved[PAGE];
	size_t bad = unless(byte == 7, "moved", byte);
	char *anew = mmap(room, PIECE / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	byte = room[PAGE];
	bad += unless(anew == room && byte == 0, "mapped anew", byte);
	munmap(room, PIECE);
	return bad;
}

static void *changes(void *arg)
{
	size_t *bad = arg;
	while (!stop)
		*bad += change();
	return NULL;
}

/* Ends at the first jump. What it had mapped stays. */
static void *jumps(void *arg)
{
	(void)arg;
	if (sigsetjmp(out, 1))
		return NULL;
	may_jump = 1;
	for (;;)
		change();
}

static int child_can_change(void)
{
	pid_t child = fork();
	if (child == 0)
		_exit(change() != 0);
	int status = 0;
	if (child > 0 && waitpid(child, &status, 0) == child)
		return !unless(status == 0, "child's status", status);
	return !unless(0, "fork", errno);
}

int turns(size_t pages)
{
	char *memory = fresh(pages * PAGE);
	fill(memory, pages);
	signal(SIGUSR1, jump);
	pthread_t threads[2], jumper;
	size_t found[2] = { 0, 0 }, children = 0;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, changes, &found[i]))
			return 2;
	for (int i = 0; i < ROUNDS; i++) {
		if (pthread_create(&jumper, NULL, jumps, NULL))
			return 2;
		do {
			usleep(2000 + 100 * (unsigned)i);
			pthread_kill(jumper, SIGUSR1);
		} while (pthread_tryjoin_np(jumper, NULL));
		children += !child_can_change();
	}
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	size_t changed = found[0] + found[1], filled = wrong(memory, pages);
	if (children || changed || filled)
		fprintf(stderr, "children %zu, pages changed %zu, pages filled %zu\n", children, changed, filled);
	return verdict(children + changed + filled, pages);
}
