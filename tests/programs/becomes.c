/*
 * becomes MIB TIMES COMMAND...: fills MIB MiB, has TIMES forked children execute COMMAND, reads all of it back after each,
 * and executes COMMAND itself. Ends with 1 where a byte is wrong, with the child's status where that is not 0.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS (4096 / sizeof(uint64_t))

static uint64_t word(size_t i)
{
	return i % 4 ? 0x2020202064726f77ull : i / WORDS * 2654435761u;
}

static void run(char **command)
{
	execv(command[0], command);
	perror(command[0]);
	_exit(127);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	size_t words = strtoull(argv[1], NULL, 10) * 256 * WORDS;
	uint64_t *memory = mmap(NULL, words * sizeof *memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 2;
	for (size_t i = 0; i < words; i++)
		memory[i] = word(i);
	for (int times = atoi(argv[2]); times > 0; times--) {
		pid_t child = fork();
		if (child == 0)
			run(argv + 3);
		int status = 0;
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 2;
		if (status)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
		for (size_t i = 0; i < words; i++)
			if (memory[i] != word(i))
				return 1;
	}
	run(argv + 3);
}
