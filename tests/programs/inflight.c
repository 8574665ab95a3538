/*
 * inflight PROGRAM [ARGUMENT]...: becomes a program of a user who may send no descriptor more, since as many as it may
 * have open are on their way.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sends standard input 60 times over one socket, and leaves it there. */
static int send_many(int socket)
{
	enum { COUNT = 60 };
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(COUNT * sizeof(int))];
	} control;
	struct iovec one = { "", 1 };
	struct msghdr message = { .msg_iov = &one, .msg_iovlen = 1 };
	memset(&control, 0, sizeof control);
	message.msg_control = &control;
	message.msg_controllen = sizeof control;
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(COUNT * sizeof(int));
	return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

int main(int argc, char **argv)
{
	struct rlimit few;
	int pair[2], errno_of_send = 0;
	if (argc < 2 || getrlimit(RLIMIT_NOFILE, &few) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 2;
	few.rlim_cur = 64;
	if (setrlimit(RLIMIT_NOFILE, &few))
		return 2;
	for (int i = 0; i < 100 && !errno_of_send; i++)
		errno_of_send = send_many(pair[0]);
	if (errno_of_send != ETOOMANYREFS)
		return 3;
	execvp(argv[1], argv + 1);
	return 127;
}
