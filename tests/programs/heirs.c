// A process and its children, who write to all that they share with it, some pages a millisecond: each write has the kernel
// copy a page. `heirs MIB CHILDREN PAGES`
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

int main(int count, char **words) {
    if (count != 4 && count != 5) {
        fprintf(stderr, "usage: heirs MIB CHILDREN PAGES [STRIDE]\n");
        return 2;
    }
    size_t pages = strtoul(words[1], NULL, 10) << 8, at_once = strtoul(words[3], NULL, 10);
    size_t stride = count == 5 ? strtoul(words[4], NULL, 10) : 1;
    unsigned long *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (size_t at = 0; at < pages * PAGE / sizeof *memory; at++) {
        memory[at] = at;
    }
    for (int child = atoi(words[2]); child > 0; child--) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return 1;
        }
        if (pid == 0) {
            usleep(200000); // until all are there and known
            unsigned long wrong = 0;
            for (size_t step = 0; step < pages; step++) {
                size_t page = step * stride % pages;
                unsigned long word = page * PAGE / sizeof *memory;
                wrong += memory[word] != word;
                memory[word] = child;
                if (step % at_once == 0) {
                    usleep(1000);
                }
            }
            _exit(wrong != 0);
        }
    }
    int status, wrong = 0;
    while (wait(&status) > 0) {
        wrong += status != 0;
    }
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
