/* The first process of the lab's machine, and what its tests share. */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char command_line[4096];

static void power_off(void) {
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

void must(int ok, const char *what) {
    if (ok)
        return;
    printf("LAB fault %s: %s\n", what, strerror(errno));
    if (getpid() != 1)
        _exit(1);
    power_off();
}

static const char *word_of(const char *key) {
    static char word[64];
    char wanted[64];
    snprintf(wanted, sizeof wanted, " lab.%s=", key);
    const char *at = strstr(command_line, wanted);
    if (!at || sscanf(at + strlen(wanted), "%63s", word) != 1)
        return "";
    return word;
}

double given(const char *key) { return atof(word_of(key)); }

int given_word(const char *key, const char *word) { return strcmp(word_of(key), word) == 0; }

int put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t wrote = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return wrote == (ssize_t)strlen(text);
}

uint64_t counter_of(const char *path, const char *name) {
    char key[128];
    unsigned long long value = 0, found = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (!name)
        found = fscanf(file, "%llu", &value) == 1 ? value : 0;
    else
        while (fscanf(file, "%127s %llu", key, &value) == 2)
            if (strcmp(key, name) == 0)
                found = value;
    fclose(file);
    return found;
}

uint64_t counter(const char *cgroup, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s/memory.stat", CGROUPS, cgroup);
    return counter_of(path, name);
}

void row(const char *metric, const char *unit, double value) {
    printf("LAB row %s %s %.17g\n", metric, unit, value);
}

uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000UL + time.tv_nsec;
}

void sleep_until(uint64_t when) {
    struct timespec time = {when / 1000000000UL, when % 1000000000UL};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        ;
}

/* splitmix64 */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15UL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9UL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebUL;
    return z ^ z >> 31;
}

uint64_t below(uint64_t *state, uint64_t n) { return (uint64_t)((__uint128_t)next(state) * n >> 64); }

uint64_t seed_of(unsigned which) {
    uint64_t state = (uint64_t)given("seed") * 1000003 + which;
    return next(&state);
}

struct zipf zipf_of(uint64_t pages, double exponent) {
    struct zipf zipf = {pages, malloc(pages * sizeof(double))};
    must(zipf.until != NULL, "memory for ranks");
    double sum = 0;
    for (uint64_t rank = 0; rank < pages; rank++)
        zipf.until[rank] = sum += pow(rank + 1, -exponent);
    for (uint64_t rank = 0; rank < pages; rank++)
        zipf.until[rank] /= sum;
    return zipf;
}

uint64_t zipf_next(const struct zipf *zipf, uint64_t *state) {
    double at = (next(state) >> 11) * 0x1p-53;
    uint64_t low = 0, high = zipf->pages - 1;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (zipf->until[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    /* Popular ranks lie scattered: a prime shares no divisor with fewer pages, so that each rank has a page of its own. */
    return low * 1000003 % zipf->pages;
}

void swap_on(const char *device) {
    int fd = open(device, O_RDWR | O_CLOEXEC);
    must(fd >= 0, device);
    off_t size = lseek(fd, 0, SEEK_END);
    char page[PAGE];
    memset(page, 0, sizeof page);
    uint32_t *header = (uint32_t *)(page + 1024);
    header[0] = 1;
    header[1] = size / PAGE - 1;
    memcpy(page + PAGE - 10, "SWAPSPACE2", 10);
    must(pwrite(fd, page, PAGE, 0) == (ssize_t)PAGE && fsync(fd) == 0, "swap header");
    close(fd);
    must(swapon(device, 0) == 0, "swapon");
}

/* Loads /modules/00.ko, 01.ko, ...: the host has put them in their order. */
static void load_modules(void) {
    char path[32], parameters[64] = "";
    for (int i = 0;; i++) {
        snprintf(path, sizeof path, "/modules/%02d.ko", i);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return;
        char name[64] = "";
        snprintf(path, sizeof path, "/modules/%02d.name", i);
        FILE *file = fopen(path, "re");
        must(file && fscanf(file, "%63s", name) == 1, path);
        fclose(file);
        if (strcmp(name, "brd") == 0)
            snprintf(parameters, sizeof parameters, "rd_nr=2 rd_size=%lu", (unsigned long)given("disk_kib"));
        else
            parameters[0] = 0;
        if (syscall(SYS_finit_module, fd, parameters, 0) != 0 && errno != EEXIST)
            must(0, name);
        close(fd);
    }
}

static void prepare(void) {
    mkdir("/proc", 0755), mkdir("/sys", 0755), mkdir("/dev", 0755);
    must(mount("proc", "/proc", "proc", 0, "") == 0, "proc");
    must(mount("sysfs", "/sys", "sysfs", 0, "") == 0, "sysfs");
    if (mount("devtmpfs", "/dev", "devtmpfs", 0, "") != 0)
        must(errno == EBUSY, "devtmpfs");
    must(mount("cgroup2", CGROUPS, "cgroup2", 0, "") == 0, "cgroup2");
    mount("debugfs", "/sys/kernel/debug", "debugfs", 0, "");
    must(put(CGROUPS "/cgroup.subtree_control", "+memory"), "memory controller");
    int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    command_line[0] = ' ';
    must(read(fd, command_line + 1, sizeof command_line - 2) > 0, "command line");
    close(fd);
    load_modules();
    must(put("/sys/kernel/mm/lru_gen/enabled", given_word("lru", "classic") ? "0" : "7"), "lru_gen");
    put("/proc/sys/vm/overcommit_memory", "1");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int fd = open("/dev/console", O_RDWR);
    for (int to = 0; fd >= 0 && to < 3; to++)
        dup2(fd, to);
    prepare();
    if (given_word("test", "fairness"))
        fairness();
    else if (given_word("test", "zswap"))
        zswap();
    else if (given_word("test", "hints"))
        hints();
    else
        must(0, "lab.test");
    puts("LAB end");
    power_off();
}
