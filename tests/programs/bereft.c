// A process that forks without end; each child reads what it has from its parent, and says so if a word is wrong. It is to be
// run until neap is killed. `bereft MIB`
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

int main(int count, char **words) {
    size_t bytes = (count == 2 ? strtoul(words[1], NULL, 10) : 48) << 20, all = bytes / sizeof(unsigned long);
    unsigned long *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (size_t at = 0; at < all; at++) {
        memory[at] = at + 1;
    }
    for (;;) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 1;
        }
        if (child == 0) {
            static const char line[] = "bereft: FAIL\n";
            for (size_t at = 0; at < all; at += 16 * PAGE / sizeof *memory) {
                if (memory[at] != at + 1) {
                    _exit(write(2, line, sizeof line - 1) < 0);
                }
            }
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
    }
}
