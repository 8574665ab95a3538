/*
 * A library to be preloaded into neap: makes one of its calls fail, as often as it is told to. In other programs it does
 * nothing.
 *
 * NEAP_FAIL_IN=PATH   the binary of neap, as the kernel names it: in no other process a call fails or is counted
 * NEAP_FAIL=CALL:ERROR:FIRST:EVERY   (and more of these, parted by commas) the FIRSTth of these calls fails (1: the first), and each EVERYth after it (0: no
 *                                    other). ERROR is an errno, or "short": the call does a part of what it was asked
 *                                    (uffdio_api: what Linux 6.7 can do).
 * NEAP_FAIL_COUNTS=FILE              a line for each kind of call, at the end: its name, how many, how many failed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define SHORT (-1)
/* UFFD_FEATURE_MOVE (Linux 6.8), which older headers do not have. */
#define MOVES (1ull << 16)
/* Of the proc file system; older headers have neither. */
#define PAGEMAP_SCAN_NR 16
#define PROCMAP_QUERY_NR 17

#define CALLS(X)                                                                                                       \
	X(uffdio_api) X(uffdio_register) X(uffdio_unregister) X(uffdio_wake) X(uffdio_copy) X(uffdio_zeropage)         \
	X(uffdio_writeprotect) X(uffdio_poison) X(userfaultfd_new) X(pagemap_scan) X(procmap_query) X(ioctl)           \
	X(read_events) X(read_waker) X(read) X(pread) X(pwrite) X(write_waker) X(write) X(poll) X(ppoll)              \
	X(sendmsg) X(recvmsg) X(accept) X(socket) X(bind) X(listen) X(getsockopt) X(setsockopt) X(eventfd)             \
	X(fallocate) X(ftruncate) X(mmap) X(munmap) X(mprotect) X(madvise) X(sigaltstack) X(pthread_create)            \
	X(open) X(opendir) X(closedir) X(close) X(kill) X(pidfd_open) X(pidfd_send_signal) X(get_robust_list)          \
	X(sched_setattr) X(userfaultfd) X(futex) X(io_uring_setup) X(io_uring_enter) X(io_uring_register)              \
	X(getdents64) X(syscall) X(sched_setaffinity) X(sched_getaffinity) X(sched_setscheduler) X(setpriority)        \
	X(getrandom) X(malloc) X(clock_nanosleep) X(fcntl) X(prctl) X(statx)                \
	X(epoll_create1) X(epoll_ctl) X(epoll_wait)

enum call {
#define X(name) C_##name,
	CALLS(X)
#undef X
		C_COUNT
};
static const char *const names[] = {
#define X(name) #name,
	CALLS(X)
#undef X
};

struct counts {
	atomic_ulong made, failed;
};
static struct counts own[C_COUNT], *counts = own;
static int active, planned;
static struct {
	int call, error;
	unsigned long first, every;
} plan[4];

static const struct {
	const char *name;
	int number;
} errors[] = {
#define E(name) { #name, name },
	E(EINTR) E(EAGAIN) E(ENOMEM) E(EMFILE) E(ENFILE) E(ESRCH) E(EIO) E(ENOSPC) E(EPERM) E(EACCES) E(EINVAL) E(ENOBUFS)
	E(EPIPE) E(EBUSY) E(EFAULT) E(ENOENT) E(EEXIST) E(ECONNABORTED) E(ETOOMANYREFS) E(ENOSYS) E(EDQUOT) E(EFBIG)
	{ "short", SHORT },
};

static void forked(void)
{
	active = 0;
}

static int is_neap(void)
{
	char path[4096];
	ssize_t len = syscall(SYS_readlink, "/proc/self/exe", path, sizeof path - 1);
	if (len <= 0)
		return 0;
	path[len] = 0;
	const char *neap = getenv("NEAP_FAIL_IN");
	return neap && !strcmp(path, neap);
}

static void intend(const char *what, int at)
{
	char call[64], name[64];
	plan[at].call = -1;
	if (sscanf(what, "%63[^:]:%63[^:]:%lu:%lu", call, name, &plan[at].first, &plan[at].every) != 4)
		abort();
	for (int i = 0; i < C_COUNT; i++)
		if (!strcmp(call, names[i]))
			plan[at].call = i;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (!strcmp(name, errors[i].name))
			plan[at].error = errors[i].number;
	if (plan[at].call < 0 || !plan[at].error)
		abort();
}

__attribute__((constructor)) static void begin(void)
{
	if (!is_neap())
		return;
	const char *file = getenv("NEAP_FAIL_COUNTS"), *what = getenv("NEAP_FAIL");
	if (file) {
		int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		syscall(SYS_ftruncate, fd, sizeof own);
		void *shared = (void *)syscall(SYS_mmap, NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (shared != MAP_FAILED)
			counts = shared;
		syscall(SYS_close, fd);
	}
	for (; what && *what && planned < 4; what = strchr(what, ',') ? strchr(what, ',') + 1 : NULL)
		intend(what, planned++);
	pthread_atfork(NULL, NULL, forked);
	active = 1;
}

/* The errno that this call is to fail with; 0: none. */
static int fails(enum call call)
{
	if (!active)
		return 0;
	unsigned long n = atomic_fetch_add(&counts[call].made, 1) + 1;
	for (int i = 0; i < planned; i++) {
		unsigned long first = plan[i].first, every = plan[i].every;
		if (plan[i].call != (int)call || n < first || (n > first && (!every || (n - first) % every)))
			continue;
		atomic_fetch_add(&counts[call].failed, 1);
		return plan[i].error;
	}
	return 0;
}

#define REAL(name)                                                                                                     \
	static __typeof__(name) *real;                                                                                 \
	if (!real)                                                                                                     \
	real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define FAIL(call)                                                                                                     \
	do {                                                                                                           \
		int e = fails(call);                                                                                   \
		if (e && e != SHORT) {                                                                                 \
			errno = e;                                                                                     \
			return -1;                                                                                     \
		}                                                                                                      \
	} while (0)

/* Fails with the errno as its result, as pthread calls do. */
#define FAIL_BY_RESULT(call)                                                                                           \
	do {                                                                                                           \
		int e = fails(call);                                                                                   \
		if (e)                                                                                                 \
			return e;                                                                                      \
	} while (0)

static enum call of_request(unsigned long request)
{
	switch (request) {
	case UFFDIO_API: return C_uffdio_api;
	case UFFDIO_REGISTER: return C_uffdio_register;
	case UFFDIO_UNREGISTER: return C_uffdio_unregister;
	case UFFDIO_WAKE: return C_uffdio_wake;
	case UFFDIO_COPY: return C_uffdio_copy;
	case UFFDIO_ZEROPAGE: return C_uffdio_zeropage;
	case UFFDIO_WRITEPROTECT: return C_uffdio_writeprotect;
	}
	if (_IOC_TYPE(request) == UFFDIO && _IOC_NR(request) == 8)
		return C_uffdio_poison;
	if (_IOC_TYPE(request) == UFFDIO && _IOC_NR(request) == 0)
		return C_userfaultfd_new;
	if (_IOC_TYPE(request) == 'f' && _IOC_NR(request) == PAGEMAP_SCAN_NR)
		return C_pagemap_scan;
	if (_IOC_TYPE(request) == 'f' && _IOC_NR(request) == PROCMAP_QUERY_NR)
		return C_procmap_query;
	return C_ioctl;
}

/* The first page of a longer fill, and EAGAIN for the rest, as where the address space changes meanwhile. */
static int fill_less(int fd, unsigned long request, struct uffdio_copy *copy, int (*real)(int, unsigned long, ...))
{
	struct uffdio_copy less = *copy;
	less.len = PAGE;
	int done = real(fd, request, &less);
	if (done == 0 && copy->len > PAGE) {
		done = -1;
		errno = EAGAIN;
	}
	copy->copy = less.copy;
	return done;
}

int ioctl(int fd, unsigned long request, ...)
{
	REAL(ioctl);
	va_list rest;
	va_start(rest, request);
	void *arg = va_arg(rest, void *);
	va_end(rest);
	int e = fails(of_request(request));
	if (e == SHORT && request == UFFDIO_COPY)
		return fill_less(fd, request, arg, (int (*)(int, unsigned long, ...))real);
	if (e && e != SHORT) {
		errno = e;
		return -1;
	}
	int done = real(fd, request, arg);
	if (e == SHORT && request == UFFDIO_API)
		((struct uffdio_api *)arg)->features &= ~MOVES;
	return done;
}

ssize_t read(int fd, void *to, size_t len)
{
	REAL(read);
	FAIL(len == 8 ? C_read_waker : len && len % sizeof(struct uffd_msg) == 0 && len <= 512 ? C_read_events : C_read);
	return real(fd, to, len);
}

ssize_t preadv2(int fd, const struct iovec *to, int count, off_t at, int flags)
{
	REAL(preadv2);
	FAIL(C_read_events);
	return real(fd, to, count, at, flags);
}

ssize_t write(int fd, const void *from, size_t len)
{
	REAL(write);
	FAIL(len == 8 ? C_write_waker : C_write);
	return real(fd, from, len);
}

ssize_t pread64(int fd, void *to, size_t len, off64_t at)
{
	REAL(pread64);
	int e = fails(C_pread);
	if (e && e != SHORT) {
		errno = e;
		return -1;
	}
	return real(fd, to, e == SHORT && len > PAGE ? PAGE : len, at);
}

ssize_t pwrite64(int fd, const void *from, size_t len, off64_t at)
{
	REAL(pwrite64);
	int e = fails(C_pwrite);
	if (e && e != SHORT) {
		errno = e;
		return -1;
	}
	return real(fd, from, e == SHORT && len > PAGE ? PAGE : len, at);
}

#define WRAP(call, result, name, params, args)                                                                         \
	result name params                                                                                             \
	{                                                                                                              \
		REAL(name);                                                                                            \
		FAIL(call);                                                                                            \
		return real args;                                                                                      \
	}

WRAP(C_poll, int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
WRAP(C_ppoll, int, ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *t, const sigset_t *m), (fds, n, t, m))
WRAP(C_sendmsg, ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
WRAP(C_recvmsg, ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
WRAP(C_accept, int, accept4, (int fd, struct sockaddr *a, socklen_t *l, int flags), (fd, a, l, flags))
WRAP(C_socket, int, socket, (int domain, int kind, int protocol), (domain, kind, protocol))
WRAP(C_bind, int, bind, (int fd, const struct sockaddr *a, socklen_t l), (fd, a, l))
WRAP(C_listen, int, listen, (int fd, int n), (fd, n))
WRAP(C_getsockopt, int, getsockopt, (int fd, int l, int n, void *v, socklen_t *s), (fd, l, n, v, s))
WRAP(C_setsockopt, int, setsockopt, (int fd, int l, int n, const void *v, socklen_t s), (fd, l, n, v, s))
WRAP(C_epoll_create1, int, epoll_create1, (int flags), (flags))
WRAP(C_epoll_ctl, int, epoll_ctl, (int ep, int op, int fd, struct epoll_event *e), (ep, op, fd, e))
WRAP(C_epoll_wait, int, epoll_wait, (int ep, struct epoll_event *e, int n, int ms), (ep, e, n, ms))
WRAP(C_eventfd, int, eventfd, (unsigned n, int flags), (n, flags))
WRAP(C_fallocate, int, fallocate, (int fd, int mode, off_t at, off_t len), (fd, mode, at, len))
WRAP(C_ftruncate, int, ftruncate64, (int fd, off64_t len), (fd, len))
WRAP(C_munmap, int, munmap, (void *at, size_t len), (at, len))
WRAP(C_mprotect, int, mprotect, (void *at, size_t len, int prot), (at, len, prot))
WRAP(C_madvise, int, madvise, (void *at, size_t len, int advice), (at, len, advice))
WRAP(C_sigaltstack, int, sigaltstack, (const stack_t *to, stack_t *was), (to, was))
WRAP(C_kill, int, kill, (pid_t pid, int sig), (pid, sig))
WRAP(C_sched_setaffinity, int, sched_setaffinity, (pid_t p, size_t n, const cpu_set_t *s), (p, n, s))
WRAP(C_sched_getaffinity, int, sched_getaffinity, (pid_t p, size_t n, cpu_set_t *s), (p, n, s))
WRAP(C_sched_setscheduler, int, sched_setscheduler, (pid_t p, int c, const struct sched_param *s), (p, c, s))
WRAP(C_setpriority, int, setpriority, (__priority_which_t what, id_t who, int nice), (what, who, nice))
WRAP(C_getrandom, ssize_t, getrandom, (void *to, size_t len, unsigned flags), (to, len, flags))
WRAP(C_statx, int, statx, (int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict s),
     (fd, path, flags, mask, s))

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t from)
{
	REAL(mmap);
	int e = fails(C_mmap);
	if (e && e != SHORT) {
		errno = e;
		return MAP_FAILED;
	}
	return real(at, len, prot, flags, fd, from);
}

void *mmap64(void *at, size_t len, int prot, int flags, int fd, off64_t from)
{
	return mmap(at, len, prot, flags, fd, from);
}

/* What the kernel does on an error of close: the descriptor is gone all the same. */
int close(int fd)
{
	REAL(close);
	int e = fails(C_close), done = real(fd);
	if (e && done == 0) {
		errno = e;
		return -1;
	}
	return done;
}

int closedir(DIR *dir)
{
	REAL(closedir);
	int e = fails(C_closedir), done = real(dir);
	if (e && done == 0) {
		errno = e;
		return -1;
	}
	return done;
}

DIR *opendir(const char *path)
{
	REAL(opendir);
	int e = fails(C_opendir);
	if (e) {
		errno = e;
		return NULL;
	}
	return real(path);
}

int open64(const char *path, int flags, ...)
{
	REAL(open64);
	va_list rest;
	va_start(rest, flags);
	mode_t mode = va_arg(rest, mode_t);
	va_end(rest);
	FAIL(C_open);
	return real(path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
	REAL(fcntl);
	va_list rest;
	va_start(rest, command);
	void *arg = va_arg(rest, void *);
	va_end(rest);
	FAIL(C_fcntl);
	return real(fd, command, arg);
}

int prctl(int option, ...)
{
	REAL(prctl);
	va_list rest;
	va_start(rest, option);
	unsigned long a = va_arg(rest, unsigned long), b = va_arg(rest, unsigned long), c = va_arg(rest, unsigned long),
		      d = va_arg(rest, unsigned long);
	va_end(rest);
	FAIL(C_prctl);
	return real(option, a, b, c, d);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	REAL(pthread_create);
	FAIL_BY_RESULT(C_pthread_create);
	return real(thread, attr, run, arg);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	REAL(clock_nanosleep);
	FAIL_BY_RESULT(C_clock_nanosleep);
	return real(clock, flags, time, left);
}

/* The allocator's own name of it: dlsym would allocate. */
void *__libc_malloc(size_t);
void *malloc(size_t len)
{
	int e = fails(C_malloc);
	if (e) {
		errno = e;
		return NULL;
	}
	return __libc_malloc(len);
}

static enum call of_number(long number, long op)
{
	switch (number) {
	case SYS_pidfd_open: return C_pidfd_open;
	case SYS_pidfd_send_signal: return C_pidfd_send_signal;
	case SYS_get_robust_list: return C_get_robust_list;
	case SYS_sched_setattr: return C_sched_setattr;
	case SYS_userfaultfd: return C_userfaultfd;
	/* To wake somebody never fails. */
	case SYS_futex: return (op & FUTEX_CMD_MASK) == FUTEX_WAKE ? C_syscall : C_futex;
	case SYS_io_uring_setup: return C_io_uring_setup;
	case SYS_io_uring_enter: return C_io_uring_enter;
	case SYS_io_uring_register: return C_io_uring_register;
	case SYS_getdents64: return C_getdents64;
	}
	return C_syscall;
}

long syscall(long number, ...)
{
	static __typeof__(syscall) *real;
	if (!real)
		real = (__typeof__(syscall) *)dlsym(RTLD_NEXT, "syscall");
	va_list rest;
	va_start(rest, number);
	long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long), d = va_arg(rest, long),
	     e = va_arg(rest, long), f = va_arg(rest, long);
	va_end(rest);
	FAIL(of_number(number, b));
	return real(number, a, b, c, d, e, f);
}

