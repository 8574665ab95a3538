// Fills MIB of memory and locks it, so that nothing of it can go out. `locked MIB`
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: locked MIB\n");
        return 2;
    }
    size_t bytes = strtoul(words[1], NULL, 10) << 20;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mlock(memory, bytes) != 0) {
        perror("mlock");
        return 1;
    }
    return 0;
}
