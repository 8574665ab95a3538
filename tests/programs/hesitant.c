// A library that has each registration of memory with a userfaultfd begin a moment later.
#include <dlfcn.h>
#include <linux/ioctl.h>
#include <linux/userfaultfd.h>
#include <stdarg.h>
#include <time.h>

static long nanoseconds(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000l + time.tv_nsec;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list more;
	va_start(more, request);
	void *argument = va_arg(more, void *);
	va_end(more);
	if (request == UFFDIO_REGISTER)
		for (long end = nanoseconds() + 100000; nanoseconds() < end;)
			;
	int (*next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym((void *)-1l, "ioctl");
	return next(fd, request, argument);
}
