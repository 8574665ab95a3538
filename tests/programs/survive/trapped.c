/* A program with a userfaultfd of its own: it is asked for every page that it has not touched. */
#include "survive.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int uffd;
static char *memory;

/* Fills the page of each fault with its number and one. */
static void *serves(void *unused)
{
	static uint64_t page[PAGE / 8] __attribute__((aligned(4096)));
	struct uffd_msg message;
	while (read(uffd, &message, sizeof message) == sizeof message) {
		uint64_t at = message.arg.pagefault.address & ~(PAGE - 1);
		page[0] = (at - (uint64_t)memory) / PAGE + 1;
		struct uffdio_copy copy = { .dst = at, .src = (uint64_t)page, .len = PAGE };
		ioctl(uffd, UFFDIO_COPY, &copy);
	}
	return unused;
}

/* 77: it may make none. */
int trapped(size_t pages)
{
	struct uffdio_api api = { .api = UFFD_API };
	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api))
		return 77;
	/* The kernel makes one mapping of the two, and puts the second below the first. */
	memory = fresh(pages * PAGE);
	char *written = fresh(pages * PAGE);
	for (size_t page = 0; page < pages; page++)
		memset(written + page * PAGE, (int)page, PAGE);
	struct uffdio_register range = { .range = { (uint64_t)memory, pages * PAGE },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t server;
	if (ioctl(uffd, UFFDIO_REGISTER, &range) || pthread_create(&server, NULL, serves, NULL))
		return 2;
	return verdict(wrong(memory, pages), pages);
}
