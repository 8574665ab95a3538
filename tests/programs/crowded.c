// Forks when it has no descriptor left, and the child looks whether its memory is what it was: `crowded MIB`.
// `crowded MIB wiped`: has some memory wiped on fork when it has no descriptor left, frees them, fills MIB, says so,
// passes its input on to its end, and forks; the child looks whether it was wiped.
// `crowded MIB later`: may have no more descriptors from the moment on that somebody opens one for its fork.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIPED = 4 << 20 };

static unsigned char at(size_t line) { return (unsigned char)(line * 31 + 7); }

static int highest;

static void take_descriptors(void) {
    for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;) {
        highest = fd;
    }
}

static unsigned char *wiped;

static void have_wiped(void) {
    wiped = mmap(NULL, WIPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(wiped, 1, WIPED);
    take_descriptors();
    if (madvise(wiped, WIPED, MADV_WIPEONFORK)) {
        perror("madvise");
        exit(2);
    }
    for (int fd = 3; fd <= highest; fd++) {
        close(fd);
    }
}

static void *allow_no_more(void *unused) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 3;
    while (fcntl(3, F_GETFD) < 0) {
    }
    setrlimit(RLIMIT_NOFILE, &limit);
    return unused;
}

static void have_less_later(void) {
    for (int fd = 3; fd < 64; fd++) {
        close(fd);
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, allow_no_more, NULL)) {
        exit(2);
    }
}

static void pass_on(void) {
    puts("filled");
    fflush(stdout);
    for (int byte; (byte = getchar()) != EOF;) {
        putchar(byte);
    }
}

static int is_right(const unsigned char *memory, size_t bytes) {
    for (size_t line = 0; line < bytes / 64; line++) {
        if (memory[line * 64] != at(line)) {
            return 0;
        }
    }
    for (size_t byte = 0; wiped && byte < WIPED; byte++) {
        if (wiped[byte]) {
            return 0;
        }
    }
    return 1;
}

int main(int count, char **words) {
    size_t bytes = (count > 1 ? strtoul(words[1], NULL, 10) : 0) << 20;
    int later = count > 2 && !strcmp(words[2], "later");
    if (count > 2 && !later) {
        have_wiped();
    }
    unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    for (size_t line = 0; line < bytes / 64; line++) {
        memory[line * 64] = at(line);
    }
    if (later) {
        have_less_later();
    } else if (count > 2) {
        pass_on();
    } else {
        take_descriptors();
    }
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        return 2;
    }
    if (child == 0) {
        _exit(!is_right(memory, bytes));
    }
    int status;
    waitpid(child, &status, 0);
    puts(status == 0 ? "right" : "wrong");
    return status != 0;
}
