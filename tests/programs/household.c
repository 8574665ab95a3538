// `household MIB`: two threads fill that much together, four children in turn read it all and write some of it, and the
// parent reads it again. Prints the sum that everybody found.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t *memory;
static size_t words;

static uint64_t word(size_t at) { return at % 8 ? 0x2020202064726f77ull : at * 2654435761u; }

static void *fill(void *half) {
    size_t first = (size_t)half * (words / 2);
    for (size_t at = first; at < first + words / 2; at++)
        memory[at] = word(at);
    return NULL;
}

static uint64_t sum(void) {
    uint64_t all = 0;
    for (size_t at = 0; at < words; at++)
        all = all * 31 + memory[at];
    return all;
}

int main(int count, char **arguments) {
    words = (count > 1 ? strtoull(arguments[1], NULL, 10) : 32) << 17;
    memory = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return perror("mmap"), 1;
    pthread_t threads[2];
    for (size_t half = 0; half < 2; half++)
        if (pthread_create(threads + half, NULL, fill, (void *)half))
            return perror("thread"), 1;
    for (size_t half = 0; half < 2; half++)
        pthread_join(threads[half], NULL);
    uint64_t wanted = sum();
    for (int child = 0; child < 4; child++) {
        pid_t pid = fork();
        if (pid < 0)
            return perror("fork"), 1;
        if (pid == 0) {
            int wrong = sum() != wanted;
            for (size_t at = 0; at < words / 16; at++)
                memory[at] = child;
            _exit(wrong);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || status)
            return fprintf(stderr, "a child found something else\n"), 1;
    }
    if (sum() != wanted)
        return fprintf(stderr, "the parent found something else\n"), 1;
    printf("%016llx\n", (unsigned long long)wanted);
    return 0;
}
