/* Who pays for root memory.reclaim: the script of the memcg LRU's cover letter, with a task of ours in fio's place. */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 1024

static const char *const COUNTED[] = {"pgscan", "pgsteal", "workingset_refault_anon", "pgactivate", "pgrefill"};
enum { SCAN, STEAL, REFAULT, COUNTERS = 5 };

static void name_of(char *name, size_t room, int group) { snprintf(name, room, "memcg%d", group); }

/* One job: all pages once in their order, then bursts of touches at random, half of them writes. */
static void job(int group, int groups) {
    char path[64], name[16];
    name_of(name, sizeof name, group);
    snprintf(path, sizeof path, CGROUPS "/%s/cgroup.procs", name);
    must(put(path, "0"), path);
    uint64_t pages = given("memory") * MIB / PAGE, state = seed_of(group);
    uint64_t period = given("burst") * 1000000, burst = given("rate") * given("burst") / 1000 + 0.5;
    volatile char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    sleep_until(now() + period * group / groups);
    /* Each page holds something, and each something else: a page of zeros is never written to swap. */
    for (uint64_t page = 0; page < pages; page++)
        *(volatile uint64_t *)(memory + page * PAGE) = page + 1;
    if (burst == 0)
        for (;;)
            pause();
    for (uint64_t begin = now();;) {
        for (uint64_t i = 0; i < burst; i++) {
            volatile char *at = memory + below(&state, pages) * PAGE + 8;
            if (below(&state, 2))
                *at += 1;
            else
                (void)*at;
        }
        /* A burst that came late does not hurry after what it missed. */
        uint64_t next = begin + period, time = now();
        begin = time > next + period ? time : next;
        sleep_until(begin);
    }
}

static double system_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_stime.tv_sec + usage.ru_stime.tv_usec * 1e-6;
}

static void report(int groups, const uint64_t *counts, double requested, int again, double system) {
    double mean = 0, variance = 0;
    static double steal[MOST];
    for (int i = 0; i < groups; i++) {
        char name[16];
        name_of(name, sizeof name, i);
        steal[i] = counter(name, "pgsteal");
        mean += steal[i] / groups;
    }
    for (int i = 0; i < groups; i++)
        variance += (steal[i] - mean) * (steal[i] - mean) / groups;
    double all = counts[STEAL] ? counts[STEAL] : 1;
    row("pgsteal_stddev_over_mean", "ratio", mean > 0 ? sqrt(variance) / mean : 0);
    row("pgsteal_sum_over_requested", "ratio", mean * groups / requested);
    row("pgscan_over_pgsteal", "ratio", counts[SCAN] / all);
    for (int i = REFAULT; i < COUNTERS; i++)
        row(COUNTED[i], "pages", counts[i]);
    row("eagain", "writes", again);
    row("system_per_stolen", "us", system * 1e6 / all);
}

void fairness(void) {
    int groups = given("cgroups"), writes = given("writes"), again = 0;
    must(groups > 0 && groups <= MOST, "lab.cgroups");
    char text[64], page_cluster[16];
    snprintf(page_cluster, sizeof page_cluster, "%d", (int)given("page_cluster"));
    must(put("/proc/sys/vm/page-cluster", page_cluster), "page-cluster");
    swap_on("/dev/ram0");
    for (int i = 0; i < groups; i++) {
        snprintf(text, sizeof text, CGROUPS "/memcg%d", i);
        must(mkdir(text, 0755) == 0, text);
    }
    uint64_t start = now();
    for (int i = 0; i < groups; i++)
        if (fork() == 0)
            job(i, groups);
    sleep_until(start + (uint64_t)(given("warm_up") * 1e9));
    uint64_t before[COUNTERS], counts[COUNTERS];
    for (int i = 0; i < COUNTERS; i++)
        before[i] = counter("", COUNTED[i]);
    snprintf(text, sizeof text, "%luM", (unsigned long)given("request"));
    double system = 0;
    for (int i = 0; i < writes; i++) {
        double begin = system_seconds();
        if (!put(CGROUPS "/memory.reclaim", text)) {
            must(errno == EAGAIN, "memory.reclaim");
            again++;
        }
        system += system_seconds() - begin;
        sleep_until(now() + (uint64_t)(given("pause") * 1e9));
    }
    for (int i = 0; i < COUNTERS; i++)
        counts[i] = counter("", COUNTED[i]) - before[i];
    report(groups, counts, given("request") * MIB / PAGE * writes, again, system);
    kill(-1, SIGKILL);
}
