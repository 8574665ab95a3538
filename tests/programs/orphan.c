// A process and its grandchild, whose parent has ended. Both keep what they share for a second, and read it then.
// `orphan MIB`
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long wrong(const unsigned long *memory, size_t words) {
    unsigned long count = 0;
    for (size_t at = 0; at < words; at++) {
        count += memory[at] != at;
    }
    return count;
}

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: orphan MIB\n");
        return 2;
    }
    size_t bytes = strtoul(words[1], NULL, 10) << 20, all = bytes / sizeof(unsigned long);
    unsigned long *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    if (memory == MAP_FAILED || pipe(ends) != 0) {
        perror("orphan");
        return 1;
    }
    for (size_t at = 0; at < all; at++) {
        memory[at] = at;
    }
    pid_t child = fork();
    if (child == 0) {
        if (fork() != 0) {
            _exit(0);
        }
        usleep(1000000);
        unsigned long found = wrong(memory, all);
        _exit(write(ends[1], &found, sizeof found) != sizeof found);
    }
    waitpid(child, NULL, 0);
    usleep(1000000);
    unsigned long found, own = wrong(memory, all);
    if (read(ends[0], &found, sizeof found) != sizeof found) {
        return 1;
    }
    printf("%lu wrong\n", found + own);
    return found + own != 0;
}
