/* Processes that share memory, or come in numbers. */
#include "survive.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The parent of a vfork is killed while its child, which shares its memory, still reads it. The
 * grandparent waits until the child has closed its end of a pipe. */
int vforked(size_t pages)
{
	int ends[2];
	if (pipe(ends))
		return 2;
	pid_t parent = fork();
	if (parent == 0) {
		close(ends[0]);
		char *memory = fresh(pages * PAGE);
		fill(memory, pages);
		pid_t self = getpid();
		if (vfork() == 0) {
			kill(self, SIGKILL);
			usleep(200000);
			_exit(verdict(wrong(memory, pages), pages));
		}
		_exit(2);
	}
	close(ends[1]);
	char none;
	while (read(ends[0], &none, 1) > 0)
		;
	int status;
	waitpid(parent, &status, 0);
	return WIFSIGNALED(status) ? 0 : 2;
}

/* A child that asks for nothing itself: what its parent asked to be wiped is wiped in its own child too. */
int heirs(size_t pages)
{
	enum { WIPED = 256 };
	char *wiped = fresh(WIPED * PAGE);
	if (madvise(wiped, WIPED * PAGE, MADV_WIPEONFORK))
		return 2;
	int status;
	pid_t child = fork();
	if (child == 0) {
		fill(wiped, WIPED);
		char *memory = fresh(pages * PAGE);
		fill(memory, pages);
		pid_t next = fork();
		if (next == 0) {
			for (size_t byte = 0; byte < WIPED * PAGE; byte++)
				if (wiped[byte])
					_exit(1);
			_exit(wrong(memory, pages) != 0);
		}
		waitpid(next, &status, 0);
		_exit(status != 0 || wrong(memory, pages) || wrong(wiped, WIPED));
	}
	waitpid(child, &status, 0);
	return verdict(status != 0, pages);
}

/* Each process forks the next and ends at once: what the next reads was staged by one that is gone. */
int orphans(size_t pages)
{
	enum { GENERATIONS = 24 };
	int ends[2];
	if (pipe(ends))
		return 2;
	if (fork() == 0) {
		close(ends[0]);
		char *memory = fresh(pages * PAGE);
		fill(memory, pages);
		for (int generation = 0; generation < GENERATIONS; generation++) {
			if (generation % 4 == 0 && wrong(memory, pages))
				_exit(1);
			usleep(generation * 100);
			pid_t next = fork();
			if (next != 0)
				_exit(next < 0);
		}
		char right = wrong(memory, pages) == 0;
		_exit(write(ends[1], &right, 1) != 1);
	}
	close(ends[1]);
	char right = 0;
	while (read(ends[0], &right, 1) > 0)
		;
	return verdict(!right, pages);
}

/* Many children at once, each of which reads all that its parent wrote. */
int children(size_t pages)
{
	enum { CHILDREN = 24 };
	char *memory = fresh(pages * PAGE);
	fill(memory, pages);
	int bad = 0;
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(wrong(memory, pages) != 0);
		if (child < 0)
			return 2;
	}
	for (int i = 0; i < CHILDREN; i++) {
		int status;
		if (wait(&status) < 0 || status != 0)
			bad++;
	}
	return verdict((size_t)bad, CHILDREN);
}

/* A child maps new memory where its parent has some that children do not get (MADV_DONTFORK). */
int holes(size_t pages)
{
	char *memory = fresh(pages * PAGE);
	fill(memory, pages);
	size_t half = pages / 2;
	if (madvise(memory, half * PAGE, MADV_DONTFORK))
		return 77;
	pid_t child = fork();
	if (child == 0) {
		char *newcomer = mmap(memory, half * PAGE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (newcomer != memory)
			_exit(77);
		/* some pages before neap looks for mappings, the others after */
		for (size_t page = 0; page < half; page += 7)
			*(volatile uint64_t *)(newcomer + page * PAGE) = page + 1;
		size_t bad = 0;
		usleep(300000);
		for (size_t page = 0; page < half; page++) {
			volatile uint64_t *word = (volatile uint64_t *)(newcomer + page * PAGE);
			bad += *word != (page % 7 ? 0 : page + 1);
			*word = page + 1;
		}
		for (size_t page = half; page < pages; page++)
			bad += *(volatile uint64_t *)(memory + page * PAGE) != page + 1;
		_exit(bad + wrong(newcomer, half) != 0);
	}
	int status;
	if (child < 0 || wait(&status) < 0)
		return 2;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return 77;
	return verdict((status != 0) + wrong(memory, pages), pages);
}
