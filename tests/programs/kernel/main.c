/* kernel: see kernel.h. */
#include "kernel.h"
#include <stdarg.h>

size_t data_mib = 16, press_mib = 64;
static const char *name = "?";

void fail(const char *fmt, ...)
{
	char line[400];
	va_list ap;
	int n = snprintf(line, sizeof line, "kernel %s: FAIL (pid %d): ", name, (int)getpid());
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof line - (size_t)n - 2, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof line - 2)
		n = sizeof line - 2;
	line[n++] = '\n';
	if (write(2, line, (size_t)n) < 0)
		_exit(2);
	_exit(1);
}

void cannot(const char *why)
{
	printf("kernel %s: skipped: %s\n", name, why);
	fflush(stdout);
	_exit(SKIPPED);
}

uint64_t word(uint64_t tag, uint64_t page, uint64_t i)
{
	return i & 3 ? tag * 0x9e3779b97f4a7c15ull + (i & 3) : (tag << 48) ^ (page << 12) ^ (i >> 4);
}

void fill(void *at, size_t bytes, uint64_t tag, uint64_t first)
{
	uint64_t *w = at;
	for (size_t p = 0; p < bytes / PAGE; p++, w += WORDS)
		for (size_t i = 0; i < WORDS; i++)
			w[i] = word(tag, first + p, i);
}

int matches(const void *page, uint64_t tag, uint64_t nr)
{
	const uint64_t *w = page;
	for (size_t i = 0; i < WORDS; i++)
		if (w[i] != word(tag, nr, i))
			return 0;
	return 1;
}

void check(const void *at, size_t bytes, uint64_t tag, uint64_t first, const char *what)
{
	const uint64_t *w = at;
	for (size_t p = 0; p < bytes / PAGE; p++, w += WORDS)
		for (size_t i = 0; i < WORDS; i++) {
			uint64_t got = w[i];
			if (got != word(tag, first + p, i))
				fail("%s: page %zu of %zu at %p, word %zu: found %#llx, expected %#llx", what, p, bytes / PAGE,
					(const void *)w, i, (unsigned long long)got, (unsigned long long)word(tag, first + p, i));
		}
}

void check_zero(const void *at, size_t bytes, const char *what)
{
	const uint64_t *w = at;
	for (size_t i = 0; i < bytes / 8; i++)
		if (w[i])
			fail("%s: %p holds %#llx, must be zero", what, (const void *)(w + i), (unsigned long long)w[i]);
}

char *map(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(p != MAP_FAILED);
	return p;
}

void press(void)
{
	static uint64_t tag = 1000;
	size_t bytes = press_mib * MIB;
	char *p = map(bytes);
	tag++;
	fill(p, bytes, tag, 0);
	check(p, bytes, tag, 0, "the memory that makes pressure");
	MUST(!munmap(p, bytes));
}

void child_ok(pid_t pid, const char *what)
{
	int status;
	pid_t got;
	MUST(pid > 0);
	do
		got = waitpid(pid, &status, __WALL);
	while (got < 0 && errno == EINTR);
	MUST(got == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		_exit(SKIPPED);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail("%s: process %d ended with %s %d", what, (int)pid, WIFEXITED(status) ? "status" : "signal",
			WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int main(int argc, char **argv)
{
	const struct mode *lists[] = { memory_modes, process_modes, call_modes, thread_modes };
	if (argc > 2)
		data_mib = strtoull(argv[2], NULL, 10);
	if (argc > 3)
		press_mib = strtoull(argv[3], NULL, 10);
	for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
		for (const struct mode *m = lists[l]; m->name; m++) {
			if (argc < 2) {
				printf("%s\n", m->name);
			} else if (!strcmp(argv[1], m->name)) {
				name = m->name;
				m->run();
				printf("kernel %s: ok\n", m->name);
				fflush(stdout);
				return 0;
			}
		}
	if (argc < 2)
		return 0;
	fprintf(stderr, "kernel: no mode %s\n", argv[1]);
	return 2;
}
