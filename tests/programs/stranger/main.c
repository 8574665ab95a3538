/*
 * stranger MODE [PATH]: a hostile client of an engine, on the socket at PATH, else the one that NEAP_SOCKET names.
 *
 *   look   looks for the socket where anybody may, and for what is beside it
 *   ask    sends every message there is, and many numbers; says how many answers and descriptors came
 *   lie    offers an address space in every wrong way, as a member of the job; says which were believed
 *   sink   has itself managed, and floods the engine with replies while it reads no command
 *   stall  has itself managed, makes its userfaultfd block its readers, and takes the engine's messages from it
 *   crowd  opens many connections and says nothing; says how many threads the engine has
 *   neighbour PID  as a member, sends every message in the name of a process of another job, and offers its files as its own;
 *          says how many words it found in that process, which of them are names, and how many offers were believed
 *
 * Exits 0 if nothing was to be had, else 1.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "stranger.h"

#define STAGE (64ul << 20)
#define DEVICE_NEW 0xaa00

static const char *path;
uint32_t magic;

/* A path, or a name in the abstract namespace. */
int dial(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t len = strlen(path), from = path[0] == '/' ? 0 : 1;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (len + from >= sizeof to.sun_path)
		exit(2);
	memcpy(to.sun_path + from, path, len);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + from + len))) {
		close(fd);
		return -1;
	}
	return fd;
}

int say(int fd, const void *bytes, size_t len, const int *fds, int count)
{
	char room[CMSG_SPACE(32 * sizeof(int))] = { 0 };
	struct iovec piece = { (void *)bytes, len };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (count) {
		message.msg_control = room;
		message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(head), fds, (size_t)count * sizeof(int));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

/* The length of an answer, 0 if there is none in time; the first descriptor that came, or -1. */
ssize_t hear(int fd, void *bytes, size_t len, int millis, int *got)
{
	char room[CMSG_SPACE(8 * sizeof(int))];
	struct iovec piece = { bytes, len };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	ssize_t had;

	*got = -1;
	if (poll(&wait, 1, millis) <= 0 || (had = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) <= 0)
		return 0;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head))
		if (head->cmsg_type == SCM_RIGHTS)
			memcpy(got, CMSG_DATA(head), sizeof(int));
	return had;
}

/* The socket's own name, or a directory above it that can be listed. */
static int look(void)
{
	char line[512], dir[256];
	int found = 0;
	FILE *sockets = fopen("/proc/net/unix", "r");

	snprintf(dir, sizeof dir, "%s", path);
	while (sockets && fgets(line, sizeof line, sockets))
		if (strstr(line, path)) {
			printf("a socket: %s", line);
			found++;
		}
	for (int up = 0; up < 2 && strrchr(dir, '/'); up++) {
		DIR *open;

		*strrchr(dir, '/') = 0;
		if ((open = opendir(dir))) {
			printf("a directory: %s\n", dir);
			found++;
			closedir(open);
		}
	}
	return found;
}

/* Both forms of the first message that there have been. */
static int put(int old, uint32_t purpose, uint64_t number, int *answers, int *descriptors)
{
	struct hello hello = { magic, old ? 8 : VERSION, purpose, 0, 4096, 8192, number };
	uint8_t bytes[256];
	int fd = dial(), got;

	if (fd < 0)
		return 0;
	if (old && purpose == 2)
		hello.arg = number;
	say(fd, &hello, old ? 32 : sizeof hello, NULL, 0);
	if (hear(fd, bytes, sizeof bytes, 300, &got) > 0)
		++*answers;
	if (got >= 0) {
		++*descriptors;
		close(got);
	}
	close(fd);
	return 1;
}

static int ask(void)
{
	int answers = 0, descriptors = 0, connected = 0;

	for (int old = 0; old < 2; old++) {
		for (uint32_t purpose = 0; purpose < 12; purpose++)
			connected += put(old, purpose, 1, &answers, &descriptors);
		for (uint64_t number = 0; number < 8; number++)
			connected += put(old, 2, number, &answers, &descriptors);
	}
	printf("ask: %d connections, %d answers, %d descriptors\n", connected, answers, descriptors);
	return answers + descriptors;
}

static const char *names[] = { "honest", "another's files", "/dev/zero for maps", "/dev/zero for pagemap", "/dev/zero for mem", "a fifo for maps",
	"a file for maps", "another's mem", "another's maps", "/dev/null for the userfaultfd", "an eventfd for it",
	"one that blocks", "another's userfaultfd", "no stage", "an odd stage", "a stage that is not mapped", "a shared stage",
	"a stage that is in use", "an agent without end", "too few descriptors", "too many" };

static int uffd_of(int device, int flags)
{
	return device >= 0 ? ioctl(device, DEVICE_NEW, flags) : (int)syscall(SYS_userfaultfd, flags);
}

pid_t other;
static int other_uffd = -1, own_uffd = -1;

/* Another process of ours, stopped, and its userfaultfd. */
static void make_other(int device)
{
	int pair[2], got;
	char byte;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
		exit(2);
	other = fork();
	if (!other) {
		int fd = uffd_of(device, O_NONBLOCK | O_CLOEXEC);

		say(pair[1], "u", 1, &fd, 1);
		for (;;)
			pause();
	}
	hear(pair[0], &byte, 1, 5000, &got);
	other_uffd = got;
	close(pair[0]);
	close(pair[1]);
}

int file_of(pid_t pid, const char *name)
{
	char where[64];

	snprintf(where, sizeof where, "/proc/%d/%s", pid, name);
	return open(where, O_RDONLY | O_CLOEXEC);
}

/* A fifo, or an ordinary file, that is called as the kernel's is. */
static int file_named(const char *name, int fifo)
{
	char dir[] = "/tmp/stranger-XXXXXX", where[64];
	int fd;

	if (!mkdtemp(dir))
		exit(2);
	snprintf(where, sizeof where, "%s/%s", dir, name);
	if (fifo)
		(void)!mkfifo(where, 0600);
	fd = open(where, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	unlink(where);
	rmdir(dir);
	return fd;
}

/* Offers this process, first with these words; the connection if it was believed, else -1. */
int offer_as(struct hello hello, int lie)
{
	struct welcome welcome = { 0 };
	struct ready ready = { 0 };
	int fd = dial(), device, extra, count = 4, fds[24];
	int shared = lie == SHARED_STAGE ? MAP_SHARED : MAP_PRIVATE;
	char *stage = mmap(NULL, STAGE, PROT_READ | PROT_WRITE, shared | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *agent = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct attach attach = { magic, 0, (uintptr_t)stage, (uintptr_t)agent, 9 * PAGE,
		(uintptr_t)agent + 12 * PAGE, 0, 0, 0, 0 };

	if (fd < 0)
		return -1;
	madvise(stage, STAGE, MADV_DONTFORK); /* nobody serves its forks */
	say(fd, &hello, sizeof hello, NULL, 0);
	if (hear(fd, &welcome, sizeof welcome, 5000, &device) != sizeof welcome || welcome.refused)
		return -1;
	if (!other && lie != HONEST)
		make_other(device);
	fds[0] = own_uffd = uffd_of(device, (lie == BLOCKING_UFFD ? 0 : O_NONBLOCK) | O_CLOEXEC);
	fds[1] = file_of(getpid(), "mem");
	fds[2] = file_of(getpid(), "pagemap");
	fds[3] = file_of(getpid(), "maps");
	switch (lie) {
	case ZERO_MAPS: fds[3] = open("/dev/zero", O_RDONLY); break;
	case ZERO_PAGEMAP: fds[2] = open("/dev/zero", O_RDONLY); break;
	case ZERO_MEM: fds[1] = open("/dev/zero", O_RDONLY); break;
	case FIFO_MAPS: fds[3] = file_named("maps", 1); break;
	case FILE_MAPS: fds[3] = file_named("maps", 0); break;
	case OTHER_MEM: fds[1] = file_of(other, "mem"); break;
	case OTHER_FILES:
		fds[1] = file_of(other, "mem");
		fds[2] = file_of(other, "pagemap");
		fds[3] = file_of(other, "maps");
		break;
	case OTHER_MAPS: fds[3] = file_of(1, "maps"); break;
	case NULL_UFFD: fds[0] = open("/dev/null", O_RDWR); break;
	case EVENT_UFFD: fds[0] = (int)syscall(SYS_eventfd2, 0, O_NONBLOCK); break;
	case OTHER_UFFD: fds[0] = other_uffd; break;
	case NO_STAGE: attach.stage = 0; break;
	case ODD_STAGE: attach.stage += 8; break;
	case UNMAPPED_STAGE: munmap(stage, STAGE); break;
	case TOUCHED_STAGE: stage[0] = 1; break;
	case HUGE_AGENT: attach.agent_bytes = ~0ull; break;
	case FEW: count = 2; break;
	case MANY:
		for (; count < 24; count++)
			fds[count] = fds[1];
		break;
	}
	if (fds[3] < 0)
		fds[3] = open("/dev/null", O_RDONLY);
	say(fd, &attach, sizeof attach, fds, count);
	if (hear(fd, &ready, sizeof ready, lie == HONEST ? 5000 : 500, &extra) != sizeof ready || ready.refused) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int offer(int lie)
{
	return offer_as((struct hello) { magic, VERSION, 1, 0, 0, 0, 0 }, lie);
}

static int lie(void)
{
	int believed = 0, honest = offer(HONEST);

	if (honest < 0)
		puts("lie: not even the truth is believed");
	for (int which = HONEST + 1; which < LIES; which++) {
		int fd = offer(which);

		if (fd >= 0) {
			printf("lie: believed: %s\n", names[which]);
			believed++;
			close(fd);
		}
	}
	if (other > 0)
		kill(other, 9);
	printf("lie: %d believed\n", believed);
	return believed + (honest < 0);
}

static struct reply word;

/* A task with our memory, as the engine expects one: it says that it is there, and does nothing. */
static int pose(void *socket)
{
	say(*(int *)socket, &word, sizeof word, NULL, 0);
	for (;;)
		pause();
}

/* Offers this process honestly, and an agent that does nothing; the connection, or -1. */
static int join(void)
{
	static int fd;
	static char stack[64 << 10];

	fd = offer(HONEST);
	word = (struct reply) { magic, 0, 0, (uint32_t)getpid(), { 0 } };
	if (fd >= 0 && clone(pose, stack + sizeof stack, CLONE_VM, &fd) < 0)
		return -1;
	usleep(100000);
	return fd;
}

static int sink(void)
{
	struct reply reply = { magic, 0, 0, (uint32_t)getpid(), { 0 } };
	int fd = join();
	size_t bytes = 48ul << 20;
	time_t end = time(NULL) + 4;
	char *memory;

	if (fd < 0)
		return 1;
	memory = malloc(bytes);
	while (time(NULL) < end) {
		for (int i = 0; i < 1000; i++)
			say(fd, &reply, sizeof reply, NULL, 0);
		for (size_t i = 0; i < bytes; i += PAGE)
			memory[i]++;
	}
	puts("sink: ok");
	return 0;
}

/* Takes what the kernel tells the engine, and does for a fault what the engine would. */
static void *take_events(void *none)
{
	struct uffd_msg news;

	for (;;) {
		if (read(own_uffd, &news, sizeof news) != sizeof news)
			continue;
		if (news.event == UFFD_EVENT_PAGEFAULT) {
			struct uffdio_zeropage zero = { .range = { news.arg.pagefault.address & ~(PAGE - 1ull), PAGE } };

			ioctl(own_uffd, UFFDIO_ZEROPAGE, &zero);
		}
	}
	return none;
}

/* Is believed, and then has its userfaultfd block whoever reads when there is nothing any more. Does not end. */
static int stall_for_ever(void)
{
	size_t bytes = 8ul << 20;
	pthread_t taker;
	char *memory;

	if (join() < 0)
		return 1;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fcntl(own_uffd, F_SETFL, 0);
	if (pthread_create(&taker, NULL, take_events, NULL))
		return 2;
	for (;;) {
		for (size_t i = 0; i < bytes; i += PAGE)
			memory[i]++;
		madvise(memory, bytes, MADV_DONTNEED);
	}
}

/* Its own faults may never be answered: it is killed. */
static int stall(void)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(stall_for_ever());
	sleep(5);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	puts(WIFSIGNALED(status) ? "stall: ok" : "stall: it was not believed");
	return !WIFSIGNALED(status);
}

static int crowd(void)
{
	struct rlimit many = { 4096, 4096 };
	struct ucred engine = { 0 };
	socklen_t len = sizeof engine;
	char where[64], line[256];
	int threads = 0, open = 0;
	FILE *status;

	setrlimit(RLIMIT_NOFILE, &many);
	for (int i = 0; i < 2500; i++) {
		int fd = dial();

		if (fd < 0)
			break;
		if (!open++)
			getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &engine, &len);
	}
	sleep(1);
	snprintf(where, sizeof where, "/proc/%d/status", engine.pid);
	status = fopen(where, "r");
	while (status && fgets(line, sizeof line, status))
		sscanf(line, "Threads: %d", &threads);
	printf("crowd: %d connections, the engine has %d threads\n", open, threads);
	return threads > 200;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "", *preload = getenv("LD_PRELOAD");

	if (preload && *preload) { /* it speaks for itself */
		unsetenv("LD_PRELOAD");
		execv("/proc/self/exe", argv);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	memcpy(&magic, "neap", 4);
	path = argc > 2 && strcmp(mode, "neighbour") ? argv[2] : getenv("NEAP_SOCKET");
	if (!path)
		return 2;
	if (!strcmp(mode, "look"))
		return look() != 0;
	if (!strcmp(mode, "ask"))
		return ask() != 0;
	if (!strcmp(mode, "lie"))
		return lie() != 0;
	if (!strcmp(mode, "sink"))
		return sink() != 0;
	if (!strcmp(mode, "stall"))
		return stall() != 0;
	if (!strcmp(mode, "crowd"))
		return crowd() != 0;
	if (!strcmp(mode, "neighbour") && argc > 2)
		return neighbour(atoi(argv[2])) != 0;
	return 2;
}
