// Forks when it has no descriptor left, and the child looks whether its memory is what it was. `crowded MIB`
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char at(size_t line) { return (unsigned char)(line * 31 + 7); }

int main(int count, char **words) {
    size_t bytes = (count > 1 ? strtoul(words[1], NULL, 10) : 0) << 20;
    unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    for (size_t line = 0; line < bytes / 64; line++) {
        memory[line * 64] = at(line);
    }
    while (open("/dev/null", O_RDONLY) >= 0) {
    }
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        return 2;
    }
    if (child == 0) {
        for (size_t line = 0; line < bytes / 64; line++) {
            if (memory[line * 64] != at(line)) {
                _exit(1);
            }
        }
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    puts(status == 0 ? "right" : "wrong");
    return status != 0;
}
