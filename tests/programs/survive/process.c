/* Processes that share memory, or come in numbers. */
#include "survive.h"

#include <signal.h>
#include <stdio.h>
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
