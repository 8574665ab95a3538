// A process whose children use all that they share with it, two at a time. Each writes to half of it, not as fast as it can. It
// forks a child of its own, which writes to that half, too. Both read all. `clan MIB CHILDREN`
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 512

static unsigned long *memory;
static size_t pages;

// What page `page` holds, and a little that does not compress.
static unsigned long first_of(size_t page) {
    return (page + 1) * 0x9e3779b97f4a7c15;
}

// Wrong pages, where the child with this mark has written to every other page.
static int wrong(unsigned long mark) {
    size_t bad = 0;
    for (size_t page = 0; page < pages; page++) {
        const unsigned long *words = memory + page * WORDS;
        unsigned long first = first_of(page) + (page % 2 == 0 ? mark : 0);
        bad += words[0] != first || words[WORDS / 2] != page || words[WORDS - 1] != ~page;
    }
    return bad != 0;
}

static int ended(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && status == 0;
}

static int child(unsigned long mark) {
    for (size_t page = 0; page < pages; page += 2) {
        memory[page * WORDS] += mark;
        if (page % 128 == 0) {
            usleep(500);
        }
    }
    pid_t own = fork();
    if (own == 0) {
        for (size_t page = 0; page < pages; page += 2) {
            memory[page * WORDS + 1] = mark;
            if (page % 128 == 0) {
                usleep(500);
            }
        }
        _exit(wrong(mark));
    }
    return !ended(own) || wrong(mark);
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: clan MIB CHILDREN\n");
        return 2;
    }
    pages = strtoul(words[1], NULL, 10) << 8;
    int children = atoi(words[2]), bad = 0;
    memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (size_t page = 0; page < pages; page++) {
        unsigned long *at = memory + page * WORDS;
        at[0] = first_of(page), at[WORDS / 2] = page, at[WORDS - 1] = ~page;
        for (int word = 2; word < 100; word++) {
            at[word] = first_of(page * WORDS + word);
        }
    }
    pid_t running[2] = {0, 0};
    for (int at = 0; at < children + 2; at++) {
        pid_t *place = &running[at % 2];
        bad += *place > 0 && !ended(*place);
        *place = at < children ? fork() : 0;
        if (*place < 0) {
            perror("fork");
            return 1;
        }
        if (*place == 0 && at < children) {
            _exit(child(at + 1));
        }
    }
    bad += wrong(0);
    printf("%d wrong\n", bad);
    return bad != 0;
}
