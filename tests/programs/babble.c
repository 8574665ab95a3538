/*
 * babble SEED COUNT: speaks nonsense to the engine of its own job, on the socket that NEAP_SOCKET names,
 * while it holds memory of its own. Prints "babble: ok" if that is whole at the end.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define WORDS (32u << 17)

static uint64_t state;

static uint64_t rnd(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dull;
}

static int dial(const char *name)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t len = strlen(name);
	struct timeval patience = { .tv_usec = 50000 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (len >= sizeof to.sun_path)
		exit(2);
	memcpy(to.sun_path, name, len);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to))
		exit(2);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	return fd;
}

/* A message with up to four descriptors that are not what they should be. */
static void say(int fd, void *bytes, size_t len)
{
	char room[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	struct iovec piece = { bytes, len };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
	int count = (int)(rnd() % 5), fds[4];

	for (int i = 0; i < count; i++)
		fds[i] = open(rnd() % 2 ? "/dev/null" : "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (count) {
		message.msg_control = room;
		message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(head), fds, (size_t)count * sizeof(int));
	}
	(void)!sendmsg(fd, &message, MSG_NOSIGNAL);
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 100, *mine = malloc(WORDS * 8);
	const char *name = getenv("NEAP_SOCKET");

	state = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) | 1;
	if (!name || !mine)
		return 2;
	for (uint64_t i = 0; i < WORDS; i++)
		mine[i] = i * 3;
	for (uint64_t i = 0; i < count; i++) {
		uint32_t words[32];
		char answer[256];
		int fd = dial(name);

		for (int w = 0; w < 32; w++)
			words[w] = (uint32_t)(rnd() >> (rnd() % 64));
		/* Hello: magic, version, purpose, flags, arg, arg2, number. Mostly well-formed. */
		if (rnd() % 8)
			memcpy(words, "neap", 4);
		if (rnd() % 8)
			words[1] = 12;
		words[2] = (uint32_t)(rnd() % 12);
		say(fd, words, rnd() % 8 ? 40 : rnd() % sizeof words);
		if (recv(fd, answer, sizeof answer, 0) > 0 && rnd() % 4) {
			for (int w = 0; w < 32; w++)
				words[w] = (uint32_t)(rnd() >> (rnd() % 64));
			memcpy(words, "neap", 4);
			say(fd, words, rnd() % 8 ? 64 : rnd() % sizeof words);
			(void)!recv(fd, answer, sizeof answer, 0);
		}
		close(fd);
	}
	for (uint64_t i = 0; i < WORDS; i++)
		if (mine[i] != i * 3)
			return 1;
	puts("babble: ok");
	return 0;
}
