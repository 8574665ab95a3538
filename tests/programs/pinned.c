// A program most of whose memory neap does not manage: a private mapping of a file, written all over. Then it
// walks again and again through a little of the other kind. `pinned PINNED_MIB HOT_KIB ROUNDS`
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

static unsigned char *map(size_t bytes, int flags, int fd) {
    unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | flags, fd, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return memory;
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: pinned PINNED_MIB HOT_KIB ROUNDS\n");
        return 2;
    }
    size_t pinned = strtoul(words[1], NULL, 10) << 20;
    size_t hot = strtoul(words[2], NULL, 10) << 10;
    int fd = memfd_create("pinned", 0);
    if (fd < 0 || ftruncate(fd, pinned) != 0) {
        perror("memfd");
        return 1;
    }
    unsigned char *memory = map(pinned, 0, fd);
    for (size_t at = 0; at < pinned; at += PAGE) {
        memory[at] = 1;
    }
    unsigned char *walked = map(hot, MAP_ANONYMOUS, -1);
    unsigned long sum = 0;
    for (long round = strtol(words[3], NULL, 10); round > 0; round--) {
        for (size_t at = 0; at < hot; at += PAGE) {
            sum += ++walked[at];
        }
        usleep(1000);
    }
    printf("%lu\n", sum);
    return 0;
}
