/* What the lab's guest programs share. The first process of the emulated machine is one static program: it mounts what it
   needs, loads modules, runs the one test that the kernel's command line names, prints its numbers, and powers off. */
#ifndef LAB_GUEST_H
#define LAB_GUEST_H

#include <stdint.h>

#define PAGE 4096UL
#define MIB (1UL << 20)
#define CGROUPS "/sys/fs/cgroup"

/* Ends the machine with a message unless `ok`. */
void must(int ok, const char *what);
/* A number of the command line, `lab.KEY=VALUE`; 0 without one. */
double given(const char *key);
/* Whether a word of the command line is this one. */
int given_word(const char *key, const char *word);
/* Writes a text to a file; whether that worked, with errno. */
int put(const char *path, const char *text);
/* The counter of a cgroup's memory.stat ("" is the root); 0 without one. */
uint64_t counter(const char *cgroup, const char *name);
/* A counter of a file of lines "NAME VALUE", or of a file that is one number if `name` is null. */
uint64_t counter_of(const char *path, const char *name);
/* A line that the lab on the host reads. */
void row(const char *metric, const char *unit, double value);

uint64_t now(void);
void sleep_until(uint64_t when);
/* A random number below `n`. */
uint64_t below(uint64_t *state, uint64_t n);
uint64_t seed_of(unsigned which);

/* Makes a swap area of a block device and turns it on. */
void swap_on(const char *device);
/* Page number of a touch by Zipf's law; the table is made once. */
struct zipf {
    uint64_t pages;
    double *until;
};
struct zipf zipf_of(uint64_t pages, double exponent);
uint64_t zipf_next(const struct zipf *zipf, uint64_t *state);

void fairness(void);
void zswap(void);
void hints(void);

#endif
