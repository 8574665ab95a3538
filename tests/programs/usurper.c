/* A managed program that kills its engine and has another listen in its place. It counts what that is handed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 4
/* The engine's first answer. */
struct welcome { uint32_t magic, refused; uint64_t stage_bytes; uint32_t flags, reserved; uint64_t proof; };

static int calls, handed;

/* Whether a message came; counts its descriptors. */
static int hear(int fd)
{
	char bytes[256], room[CMSG_SPACE(16 * sizeof(int))];
	struct iovec piece = { bytes, sizeof bytes };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };

	if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) <= 0)
		return 0;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head))
		if (head->cmsg_type == SCM_RIGHTS)
			handed += (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	return 1;
}

/* Answers every call as an engine might that knows no secret. */
static void *pretend(void *listener)
{
	struct welcome welcome = { 0, 0, 64ul << 20, 0, 0, 0x1234 };

	memcpy(&welcome.magic, "neap", 4);
	for (;;) {
		int fd = accept4(*(int *)listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		calls++;
		while (hear(fd))
			send(fd, &welcome, sizeof welcome, MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

int main(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const char *path = getenv("NEAP_SOCKET");
	pid_t engine = getppid();
	pthread_t thread;

	if (!path || kill(engine, SIGKILL))
		return 1;
	while (getppid() == engine)
		usleep(1000);
	snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
	unlink(path);
	if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 64) ||
	    pthread_create(&thread, NULL, pretend, &listener))
		return 2;
	for (int i = 0; i < CHILDREN; i++) {
		int status = 1;
		pid_t child = fork();

		if (!child) {
			memset(malloc(1 << 20), 1, 1 << 20);
			_exit(0);
		}
		if (waitpid(child, &status, 0) != child || status)
			return 3;
	}
	usleep(300000);
	printf("%d calls, %d descriptors\n", calls, handed);
	return handed;
}
