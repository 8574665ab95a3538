/* A program that moves pages that are out, with a userfaultfd of its own. */
#include "survive.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK 64ul
#define FEATURE_MOVE (1 << 16)
#define SKIPS_HOLES 2ul

/* struct uffdio_move, Linux 6.8 */
struct carry {
	uint64_t to, from, bytes, mode;
	int64_t moved;
};
#define CARRY _IOWR(UFFDIO, 5, struct carry)

static int carry(int uffd, const char *from, char *to, size_t bytes)
{
	size_t done = 0;
	while (done < bytes) {
		struct carry carry = { (uint64_t)to + done, (uint64_t)from + done, bytes - done, SKIPS_HOLES, 0 };
		if (!ioctl(uffd, CARRY, &carry))
			return 0;
		if (carry.moved > 0)
			done += (size_t)carry.moved;
		else if (errno != EAGAIN && errno != EBUSY)
			return -1;
		else
			usleep(100);
	}
	return 0;
}

/* 77: it may make none, or the kernel moves no pages. */
int carried(size_t pages)
{
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURE_MOVE };
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api))
		return 77;
	size_t some = pages / 16 / BLOCK * BLOCK;
	char *from = fresh(some * PAGE), *to = fresh(some * PAGE), *memory = fresh(pages * PAGE);
	fill(from, some);
	fill(memory, pages);
	usleep(300000);
	struct uffdio_register range = { .range = { (uint64_t)to, some * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	if (ioctl(uffd, UFFDIO_REGISTER, &range))
		return 2;
	size_t bad = 0;
	for (size_t page = 0; page < some; page += BLOCK)
		if (carry(uffd, from + page * PAGE, to + page * PAGE, BLOCK * PAGE))
			bad += BLOCK;
	if (ioctl(uffd, UFFDIO_UNREGISTER, &range.range))
		return 2;
	return verdict(bad + wrong(to, some) + wrong(memory, pages), some + pages);
}
