// A process and a descendant of it, all between whom end as soon as they have forked. Both keep what they share for a
// second, and read it then. `orphan MIB BETWEEN`
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
    if (count != 3) {
        fprintf(stderr, "usage: orphan MIB BETWEEN\n");
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
        for (int between = atoi(words[2]); between > 0; between--) {
            pid_t next = fork();
            if (next != 0) {
                _exit(next < 0);
            }
        }
        usleep(1000000);
        unsigned long found = wrong(memory, all);
        _exit(write(ends[1], &found, sizeof found) != sizeof found);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "orphan: no descendant\n");
        return 1;
    }
    close(ends[1]); // so that the read ends should they all be gone
    usleep(1000000);
    unsigned long found, own = wrong(memory, all);
    if (read(ends[0], &found, sizeof found) != sizeof found) {
        return 1;
    }
    printf("%lu wrong\n", found + own);
    return found + own != 0;
}
