// A process and its children, as a pool of workers has them: each writes to a few pages of what it shares, reads some more, sleeps
// and ends. `sleepers MIB CHILDREN AT_ONCE`
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WRITTEN = 320, STEP = 48 };

static unsigned char *memory;
static size_t pages;

static int serve(unsigned child) {
    for (size_t i = 0; i < WRITTEN; i++) {
        memory[i * STEP % pages * PAGE + 8] = (unsigned char)child;
    }
    usleep(200000);
    int wrong = 0;
    for (size_t i = 0; i < WRITTEN; i++) {
        wrong |= memory[i * STEP % pages * PAGE + 8] != (unsigned char)child;
    }
    for (size_t page = child % 7; page < pages; page += 997) {
        wrong |= memory[page * PAGE] != (unsigned char)page;
    }
    return wrong;
}

static int wait_for_one(void) {
    int status;
    return wait(&status) > 0 && status != 0;
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: sleepers MIB CHILDREN AT_ONCE\n");
        return 2;
    }
    pages = strtoul(words[1], NULL, 10) << 8;
    unsigned children = (unsigned)atoi(words[2]), most = (unsigned)atoi(words[3]), alive = 0;
    int wrong = 0;
    memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (size_t page = 0; page < pages; page++) {
        for (size_t i = 0; i < PAGE; i += 64) {
            memory[page * PAGE + i] = (unsigned char)(page + i * 37);
        }
    }
    for (unsigned child = 0; child < children; child++) {
        if (alive == most) {
            wrong += wait_for_one();
            alive--;
        }
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return 1;
        }
        if (pid == 0) {
            _exit(serve(child));
        }
        alive++;
    }
    for (; alive > 0; alive--) {
        wrong += wait_for_one();
    }
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
