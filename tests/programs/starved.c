/*
 * starved LEFT MIB: has pages elsewhere, then forks with no more than LEFT descriptors to open; the child takes MIB MiB.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *take(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		exit(2);
	for (size_t at = 0; at < bytes; at += 4096)
		memset(p + at, (int)(at / 4096 % 251) + 1, 4096);
	return p;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	int left = atoi(argv[1]), last = 0, status;
	struct rlimit few = {64, 64};

	take(24 << 20);
	usleep(300000);
	if (setrlimit(RLIMIT_NOFILE, &few))
		return 2;
	for (int fd; (fd = dup(2)) >= 0;)
		last = fd;
	for (int i = 0; i < left; i++)
		close(last - i);
	pid_t pid = fork();
	if (pid < 0)
		return 2;
	if (pid == 0) {
		take(strtoull(argv[2], NULL, 10) << 20);
		_exit(0);
	}
	return waitpid(pid, &status, 0) < 0 || status;
}
