/*
 * forkrace MIB SECONDS THREADS: a process with MIB MiB forks again and again. Each child checks some of its memory, or all of it, and
 * some fork again. Meanwhile THREADS threads change mappings without a word to the one that forks: by libc (malloc, realloc and free of large blocks), and by
 * system calls. Prints how many words were wrong, and how many children did not end by themselves.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS 512
#define BLOCK (3 << 20)

static volatile int stop;
static uint64_t pages, *memory;

static uint64_t word_of(uint64_t page, int round)
{
	return page * 2654435761u + round;
}

static uint64_t check(uint64_t step, int round)
{
	uint64_t wrong = 0;
	for (uint64_t page = 0; page < pages; page += step)
		wrong += memory[page * WORDS + page % WORDS] != word_of(page, page < pages / 4 ? round : 0);
	return wrong;
}

/* One block, which no other thread knows. */
static void *change(void *number)
{
	uint64_t n = (uint64_t)number, wrong = 0;
	while (!stop) {
		n = n * 6364136223846793005u + 1442695040888963407u;
		size_t size = BLOCK + (n >> 33) % BLOCK;
		if (n >> 63) {
			char *block = malloc(size);
			memset(block, (int)(n >> 40), size);
			block = realloc(block, 2 * size);
			wrong += block[size - 1] != (char)(n >> 40);
			free(block);
		} else {
			char *block = (char *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			memset(block, (int)(n >> 40), size);
			syscall(SYS_madvise, block, (size / 2) & ~4095ul, MADV_DONTNEED);
			wrong += block[4096] != 0 || block[size - 1] != (char)(n >> 40);
			syscall(SYS_munmap, block, size);
		}
	}
	return (void *)wrong;
}

static void *nothing(void *unused)
{
	return unused;
}

/* What becomes of a child: its own and its child's wrong words. */
static int begin_child(uint64_t n, int round)
{
	uint64_t wrong = check(n % 4 ? 97 : 1, round);
	for (uint64_t page = n % 7; page < pages; page += 61)
		memory[page * WORDS + page % WORDS] = n;
	if (n % 5 == 0) {
		pid_t child = fork();
		if (child == 0) {
			for (uint64_t page = n % 7; page < pages; page += 61)
				wrong += memory[page * WORDS + page % WORDS] != n;
			_exit(wrong > 100 ? 100 : wrong);
		}
		int status;
		wrong += child < 0 || waitpid(child, &status, 0) != child || status != 0;
	}
	if (n % 3 == 0) {
		pthread_t thread;
		wrong += pthread_create(&thread, NULL, nothing, NULL) != 0;
		pthread_join(thread, NULL);
		free(malloc(200000));
	}
	return wrong > 100 ? 100 : wrong;
}

int main(int argc, char **argv)
{
	pages = strtoull(argc > 1 ? argv[1] : "48", NULL, 10) * 256;
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 5);
	int threads = argc > 3 ? atoi(argv[3]) : 2;
	pthread_t all[64];
	memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (uint64_t page = 0; page < pages; page++)
		memory[page * WORDS + page % WORDS] = word_of(page, 0);
	for (int n = 0; n < threads; n++)
		pthread_create(&all[n], NULL, change, (void *)(uint64_t)(n + 1));
	uint64_t wrong = 0, odd = 0, forks = 0;
	for (; time(NULL) < end; forks++) {
		int status;
		for (uint64_t page = 0; page < pages / 4; page += forks % 16 + 1)
			memory[page * WORDS + page % WORDS] = word_of(page, 0);
		pid_t child = fork();
		if (child == 0)
			_exit(begin_child(forks, 0));
		if (child < 0) {
			perror("fork");
			return 2;
		}
		wrong += check(101, 0);
		waitpid(child, &status, 0);
		if (WIFEXITED(status))
			wrong += WEXITSTATUS(status);
		else
			odd++;
	}
	stop = 1;
	for (int n = 0; n < threads; n++) {
		void *result;
		pthread_join(all[n], &result);
		wrong += (uint64_t)result;
	}
	fprintf(stderr, "%llu forks\n", (unsigned long long)forks);
	printf("%llu wrong, %llu ended otherwise\n", (unsigned long long)wrong, (unsigned long long)odd);
	return wrong != 0 || odd != 0;
}
