// A place where private memory and memory of large pages (hugetlb) are mapped by turns, beside memory that is out.
// SECONDS. Exits with 3 where there are no large pages.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LARGE (2ul << 20)
#define BYTES (64ul << 20)

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void spin(double seconds)
{
	for (double end = now() + seconds; now() < end;)
		;
}

static unsigned char *map(void *at, int more)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | more;
	return mmap(at, LARGE, PROT_READ | PROT_WRITE, flags, -1, 0);
}

int main(int argc, char **argv)
{
	double end = now() + (argc > 1 ? atof(argv[1]) : 1);
	unsigned char *data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t at = 0; at < BYTES; at += 4096)
		data[at] = 1 + at / 4096 % 100;
	unsigned char *room = mmap(NULL, 2 * LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned char *place = (unsigned char *)(((size_t)room + LARGE - 1) & ~(LARGE - 1));
	while (now() < end) {
		munmap(place, LARGE);
		if (map(place, MAP_FIXED_NOREPLACE) != place)
			return 4;
		spin(1e-4);
		munmap(place, LARGE);
		if (map(place, MAP_FIXED_NOREPLACE | MAP_HUGETLB) != place)
			return 3;
		spin(2e-4);
		if (place[5 * 4096] != 0)
			return 5;
		memset(place, 7, LARGE);
		if (place[LARGE - 1] != 7)
			return 6;
	}
	for (size_t at = 0; at < BYTES; at += 4096)
		if (data[at] != 1 + at / 4096 % 100)
			return 7;
	printf("right\n");
}
