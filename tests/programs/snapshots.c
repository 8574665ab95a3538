// A process that forks a child which keeps what there was, as a database does for a snapshot, and writes meanwhile: first to one page in
// 128, then, with the next child, to all. `snapshots MIB`
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 512

int main(int count, char **words) {
    size_t pages = count > 1 ? strtoul(words[1], NULL, 10) << 8 : 0;
    unsigned long *memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), wrong = 0;
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (size_t at = 0; at < pages * WORDS; at++) {
        memory[at] = at * 0x9e3779b97f4a7c15;
    }
    for (int round = 0; round < 2; round++) {
        int line[2];
        pid_t child = pipe(line) == 0 ? fork() : -1;
        if (child < 0) {
            perror("fork");
            return 1;
        }
        if (child == 0) {
            char end;
            close(line[1]);
            _exit(read(line[0], &end, 1) != 0 || memory[7] != 7 * 0x9e3779b97f4a7c15);
        }
        close(line[0]);
        usleep(300000);
        size_t step = round == 0 ? 128 : 1;
        for (size_t page = 0; page < pages; page += step) {
            wrong += memory[page * WORDS + 1] != (page * WORDS + 1) * 0x9e3779b97f4a7c15;
            memory[page * WORDS]++;
            if (round == 0) {
                usleep(300);
            }
        }
        int status;
        close(line[1]);
        wrong += waitpid(child, &status, 0) != child || status != 0;
    }
    printf("%lu wrong\n", wrong);
    return wrong != 0;
}
