/* Two mapped files on a RAM disk, and memory for half of them: one is touched at random and may be advised so, the other
   unevenly and never. */
#define _GNU_SOURCE
#include "guest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const FILES[] = {"/files/hinted", "/files/other"};

static char *map(const char *path, uint64_t pages, int *fd) {
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    must(*fd >= 0, path);
    char *memory = mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, *fd, 0);
    must(memory != MAP_FAILED, "mmap");
    return memory;
}

/* Forgets the translations that the CPU keeps: while it has one, a touch leaves no trace in the page table. */
static void forget(void) {
    unsigned long size = 64 * PAGE;
    volatile char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    for (unsigned long at = 0; at < size; at += PAGE)
        memory[at] = 1;
    munmap((void *)memory, size);
}

/* Bursts of reads, so many a second. */
static void reader(unsigned which, uint64_t end) {
    must(put(CGROUPS "/job/cgroup.procs", "0"), "cgroup.procs");
    int fd;
    uint64_t pages = given("file") * MIB / PAGE, state = seed_of(which), period = given("burst") * 1000000;
    uint64_t burst = given("rate") * given("burst") / 1000;
    struct zipf zipf = zipf_of(pages, given("exponent"));
    volatile char *memory = map(FILES[which], pages, &fd);
    if (which == 0 && given_word("hint", "random"))
        must(madvise((void *)memory, pages * PAGE, MADV_RANDOM) == 0, "MADV_RANDOM");
    if (which == 0 && given_word("hint", "noreuse"))
        must(posix_fadvise(fd, 0, 0, POSIX_FADV_NOREUSE) == 0, "POSIX_FADV_NOREUSE");
    for (uint64_t begin = now(); begin < end;) {
        for (uint64_t i = 0; i < burst; i++) {
            uint64_t page = which == 0 ? below(&state, pages) : zipf_next(&zipf, &state);
            (void)memory[page * PAGE];
        }
        if (given_word("translations", "forgotten"))
            forget();
        uint64_t next = begin + period, time = now();
        begin = time > next + period ? time : next;
        sleep_until(begin);
    }
    _exit(0);
}

static uint64_t resident(const char *path) {
    int fd;
    uint64_t pages = given("file") * MIB / PAGE, found = 0;
    char *memory = map(path, pages, &fd);
    unsigned char *there = malloc(pages);
    must(there && mincore(memory, pages * PAGE, there) == 0, "mincore");
    for (uint64_t page = 0; page < pages; page++)
        found += there[page] & 1;
    return found;
}

/* The host made an empty file system; its blocks come as /files.image, with their numbers. */
static void make_disk(void) {
    struct {
        uint64_t at;
        char data[PAGE];
    } block;
    FILE *image = fopen("/files.image", "re");
    int disk = open("/dev/ram1", O_WRONLY | O_CLOEXEC);
    must(image && disk >= 0, "/dev/ram1");
    while (fread(&block, sizeof block, 1, image) == 1)
        must(pwrite(disk, block.data, PAGE, block.at * PAGE) == (ssize_t)PAGE, "a block of the disk");
    fclose(image);
    must(fsync(disk) == 0 && close(disk) == 0, "the disk");
    must(mkdir("/files", 0755) == 0 && mount("/dev/ram1", "/files", "ext4", 0, "") == 0, "ext4");
    char *zeros = calloc(1, MIB);
    for (int i = 0; i < 2; i++) {
        int fd = open(FILES[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        for (uint64_t mib = 0; mib < given("file"); mib++)
            must(write(fd, zeros, MIB) == (ssize_t)MIB, FILES[i]);
        must(fsync(fd) == 0, "fsync");
        close(fd);
    }
    sync();
    /* Only pages that a task touches are read and mapped: neither those around nor those after them. */
    must(put("/sys/block/ram1/queue/read_ahead_kb", "0"), "read_ahead_kb");
    must(put("/sys/kernel/debug/fault_around_bytes", "4096"), "fault_around_bytes");
    must(put("/proc/sys/vm/drop_caches", "3"), "drop_caches");
}

void hints(void) {
    char text[64];
    put("/sys/kernel/mm/transparent_hugepage/enabled", "never");
    make_disk();
    must(mkdir(CGROUPS "/job", 0755) == 0, "cgroup");
    snprintf(text, sizeof text, "%luM", (unsigned long)given("limit"));
    must(put(CGROUPS "/job/memory.max", text), "memory.max");
    /* Both end at one time: what is in memory then is what both made of it. */
    uint64_t end = now() + given("seconds") * 1000000000UL;
    for (int i = 0; i < 2; i++)
        if (fork() == 0)
            reader(i, end);
    for (int i = 0, status; i < 2; i++)
        must(wait(&status) > 0 && status == 0, "a reader");
    row("workingset_refault_file", "pages", counter("job", "workingset_refault_file"));
    row("pgsteal", "pages", counter("job", "pgsteal"));
    row("pgscan", "pages", counter("job", "pgscan"));
    row("pgactivate", "pages", counter("job", "pgactivate"));
    row("resident_hinted", "pages", resident(FILES[0]));
    row("resident_other", "pages", resident(FILES[1]));
}
