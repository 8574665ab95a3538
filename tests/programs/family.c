// A process and its children, which share what it wrote: nothing of it compresses. Each child reads it all while
// the others are there. `family MIB CHILDREN`
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long sum(const unsigned long *words, size_t count) {
    unsigned long all = 0;
    for (size_t at = 0; at < count; at++) {
        all = all * 31 + words[at];
    }
    return all;
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: family MIB CHILDREN\n");
        return 2;
    }
    size_t bytes = strtoul(words[1], NULL, 10) << 20;
    unsigned long *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    unsigned long state = 88172645463325252ul;
    for (size_t at = 0; at < bytes / sizeof *memory; at++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memory[at] = state;
    }
    unsigned long wanted = sum(memory, bytes / sizeof *memory);
    for (int child = atoi(words[2]); child > 0; child--) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return 1;
        }
        if (pid == 0) {
            usleep(500000);
            int right = sum(memory, bytes / sizeof *memory) == wanted;
            usleep(500000);
            _exit(right ? 0 : 1);
        }
    }
    int status, wrong = 0;
    while (wait(&status) > 0) {
        wrong += status != 0;
    }
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
