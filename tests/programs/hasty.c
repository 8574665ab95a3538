/*
 * hasty TIMES PROGRAM [ARGUMENT]...: starts a program so many times, and kills each soon after, later from time to time,
 * so that some end in the midst of being taken over.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	int times = atoi(argv[1]), status;
	for (int i = 0; i < times; i++) {
		pid_t pid = vfork();
		if (pid < 0)
			return 2;
		if (pid == 0) {
			execvp(argv[2], argv + 2);
			_exit(127);
		}
		usleep(i % 100 * 30);
		kill(pid, SIGKILL);
		if (waitpid(pid, &status, 0) < 0 || !WIFSIGNALED(status))
			return 1;
	}
	return 0;
}
