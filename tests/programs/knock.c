/*
 * knock SOCKET: what another user gets out of a control socket. It asks for figures and prints how many bytes come back; -1
 * if it cannot connect.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const char request[] = "{\"v\":1,\"op\":\"stat\"}\n";
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (argc < 2 || strlen(argv[1]) >= sizeof to.sun_path)
		return 2;
	strcpy(to.sun_path, argv[1]);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0)
		return 2;
	if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
		puts("-1");
		return 0;
	}
	send(fd, request, sizeof request - 1, MSG_NOSIGNAL);
	char bytes[4096];
	long sum = 0;
	for (ssize_t got; (got = read(fd, bytes, sizeof bytes)) > 0;)
		sum += got;
	printf("%ld\n", sum);
	return 0;
}
