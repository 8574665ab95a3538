/* zswap with its shrinker: tasks that use more memory than their cgroup may have, unevenly. */
#define _GNU_SOURCE
#include "guest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGE "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/"

/* A page of which `random` bytes do not compress; the rest are zeros. */
static void fill(char *page, uint64_t *state, unsigned random) {
    for (unsigned at = 0; at + 8 <= random; at += 8)
        *(uint64_t *)(page + at) = below(state, UINT64_MAX);
}

/* `over` is a pipe: a byte says that a task has done all it does, while its memory is still there. */
static void task(unsigned which, int over) {
    must(put(CGROUPS "/job/cgroup.procs", "0"), "cgroup.procs");
    uint64_t pages = given("memory") * MIB / PAGE, touches = given("touches") * 1000, state = seed_of(which);
    unsigned random = given("random");
    struct zipf zipf = zipf_of(pages, given("exponent"));
    /* On a border of 2 MiB, so that folios of any size fit. */
    char *memory = mmap(NULL, pages * PAGE + 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    memory += -(uintptr_t)memory % (2 * MIB);
    for (uint64_t page = 0; page < pages; page++)
        fill(memory + page * PAGE, &state, random);
    for (uint64_t i = 0; i < touches; i++) {
        volatile char *at = memory + zipf_next(&zipf, &state) * PAGE + 4000;
        if (below(&state, 2))
            *at += 1;
        else
            (void)*at;
    }
    must(write(over, "", 1) == 1, "pipe");
    for (;;)
        pause();
}

static void set_up(void) {
    char text[64];
    must(put("/sys/module/zswap/parameters/compressor", "lzo"), "compressor");
    snprintf(text, sizeof text, "%d", (int)given("pool"));
    must(put("/sys/module/zswap/parameters/max_pool_percent", text), "max_pool_percent");
    must(put("/sys/module/zswap/parameters/shrinker_enabled", "Y"), "shrinker_enabled");
    must(put("/sys/module/zswap/parameters/enabled", "Y"), "zswap");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "never");
    if (given("order") == 4)
        must(put(LARGE "enabled", "always"), "folios of 64 KiB");
    snprintf(text, sizeof text, "%d", (int)given("page_cluster"));
    must(put("/proc/sys/vm/page-cluster", text), "page-cluster");
    swap_on("/dev/ram0");
    must(mkdir(CGROUPS "/job", 0755) == 0, "cgroup");
    snprintf(text, sizeof text, "%luM", (unsigned long)given("limit"));
    must(put(CGROUPS "/job/memory.max", text), "memory.max");
}

void zswap(void) {
    set_up();
    static const char *const of_machine[] = {"pswpin", "pswpout"};
    uint64_t before[2];
    for (int i = 0; i < 2; i++)
        before[i] = counter_of("/proc/vmstat", of_machine[i]);
    int jobs = given("jobs"), over[2];
    char byte;
    must(pipe(over) == 0, "pipe");
    for (int i = 0; i < jobs; i++)
        if (fork() == 0)
            task(i, over[1]);
    close(over[1]);
    for (int i = 0; i < jobs; i++)
        must(read(over[0], &byte, 1) == 1, "a task");
    double written = counter("job", "zswpwb");
    row("swapins", "pages", counter_of("/proc/vmstat", "pswpin") - before[0]);
    row("zswpwb", "pages", written);
    row("past_the_pool", "pages", counter_of("/proc/vmstat", "pswpout") - before[1] - written);
    row("zswpin", "pages", counter("job", "zswpin"));
    row("zswpout", "pages", counter("job", "zswpout"));
    row("pgscan", "pages", counter("job", "pgscan"));
    row("pgsteal", "pages", counter("job", "pgsteal"));
    row("workingset_refault_anon", "pages", counter("job", "workingset_refault_anon"));
    row("large_zswpout", "folios", counter_of(LARGE "stats/zswpout", NULL));
    row("large_swpout", "folios", counter_of(LARGE "stats/swpout", NULL));
    double stored = counter("job", "zswapped") / PAGE;
    row("bytes_per_entry", "bytes", stored > 0 ? counter("job", "zswap") / stored : 0);
    kill(-1, SIGKILL);
}
