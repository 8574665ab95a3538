/*
 * held CALL SECONDS COMMAND...: runs COMMAND, and holds it for SECONDS at the CALL-th of its system calls that have to do
 * with sockets, as a debugger may. Ends as the command did; with 77 where none may be traced.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77

static int talks(pid_t pid)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) < 0 || info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return 0;
	switch (info.entry.nr) {
	case SYS_socket:
	case SYS_connect:
	case SYS_sendmsg:
	case SYS_recvmsg:
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	int call = atoi(argv[1]), status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(SKIPPED);
		execvp(argv[3], argv + 3);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 2;
	if (WIFSTOPPED(status))
		ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
	while (WIFSTOPPED(status)) {
		int signal = WSTOPSIG(status);

		if (signal == (SIGTRAP | 0x80) && talks(pid) && --call == 0) {
			sleep((unsigned)atoi(argv[2]));
			ptrace(PTRACE_DETACH, pid, 0, 0);
		} else {
			int passed = (signal & 0x7f) == SIGTRAP ? 0 : signal;
			ptrace(PTRACE_SYSCALL, pid, 0, (long)passed);
		}
		if (waitpid(pid, &status, 0) < 0)
			return 2;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
