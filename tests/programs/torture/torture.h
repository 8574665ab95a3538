/*
 * torture: many threads do at random everything a Linux program can do to its
 * memory, and every page says what it must hold.
 *
 * A page's contents follow from (seed, ident, version); a shadow model in a
 * MAP_SHARED memfd (never managed memory) keeps ident, version and state of each
 * page. What an operation does follows from (seed, thread, operation number)
 * alone, so that a seed replays the same operations on every run.
 */
#ifndef TORTURE_H
#define TORTURE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define WORDS (PAGE / 8)
#define POKE_WORD 7 /* the word that single stores change */
#define MAX_WORKERS 64
#define MAX_REGIONS 48
#define LOG_LEN 32
#define CONST_PAGES 512
#define MAX_BLOCKS 32
#define LOST 16384

/* What a page must hold. */
enum state {
	P_ZERO,  /* zeros */
	P_DATA,  /* content(ident, version) */
	P_FREED, /* either of the two: MADV_FREE and not wholly rewritten since */
};

/* Flags of a page, as the kernel keeps them for its mapping. */
#define PF_DONTFORK 1
#define PF_WIPE 2
#define PF_LOCKED 4

struct shadow {
	uint64_t ident;
	uint32_t version;
	uint32_t poke; /* if not 0, the value of word POKE_WORD */
	uint8_t state;
	uint8_t flags;
	uint16_t pad;
	uint32_t pad2;
};

enum kind { K_ANON, K_FILE, K_STACK, K_GROWSDOWN, K_HUGE, K_EXEC, K_KINDS };

struct region {
	char *addr;
	uint32_t pages;
	uint32_t prot;
	uint16_t kind;
	uint8_t used;
	uint8_t frag; /* some call changed a part: the kernel may see several mappings */
	uint32_t slot;
};

struct log_entry {
	uint64_t opno;
	uint32_t op;
	uint32_t note;
	uint64_t a, b, c;
};

/* A piece of the program's own malloc. */
struct block {
	uint64_t *p;
	uint32_t words;
	uint64_t seed;
};

struct child {
	pid_t pid;
	struct snapshot *snap;
};

/* One thread's world; lies in the shared memfd. */
struct worker {
	uint32_t id;
	uint32_t pages; /* mapped now */
	uint64_t opno;
	uint64_t rng;
	uint64_t next_ident;
	_Atomic uint64_t beat; /* CLOCK_MONOTONIC ms at which the operation began */
	_Atomic uint32_t op;
	_Atomic uint32_t done;
	_Atomic uint64_t verified, written;
	pthread_t thread;
	struct region regions[MAX_REGIONS];
	struct log_entry log[LOG_LEN];
	uint64_t log_next;
	struct child children[4];
	char *altstack;
	int file;   /* scratch, in the page cache */
	int direct; /* scratch, past it; -1 if refused */
	struct block blocks[MAX_BLOCKS];
};

struct global {
	uint64_t seed;
	uint32_t workers;
	uint32_t budget;    /* pages of one worker */
	uint32_t max_pages; /* of one region */
	uint64_t count;     /* operations of each worker, 0 = until the time is over */
	uint64_t stall_ms;
	int verbose;
	const char *dir;
	_Atomic uint32_t lost_len; /* messages of processes that have no standard error */
	char lost[LOST];
	_Atomic uint32_t stop, failed;
	_Atomic uint64_t op_count[64], op_skipped[64];
	struct shadow const_shadow[CONST_PAGES];
	struct worker worker[MAX_WORKERS + 1]; /* the last is the main thread's */
	pthread_rwlock_t world; /* held shared by each operation, exclusively to fork everything */
};

extern struct global *G;
extern struct shadow *shadows;  /* [worker][region slot][max_pages] */
extern char *const_pages;       /* CONST_PAGES, written once */
extern __thread struct worker *me;

/* splitmix64; the state belongs to the operation */
static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}
static inline uint64_t rnd(void)
{
	me->rng += 0x9e3779b97f4a7c15ull;
	return mix(me->rng);
}
/* uniform enough in 0..n-1 */
static inline uint32_t below(uint32_t n)
{
	return n ? (uint32_t)(((rnd() >> 32) * (uint64_t)n) >> 32) : 0;
}
static inline uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
#define RETRY(e) ({ long r_; do r_ = (long)(e); while (r_ == -1 && errno == EINTR); r_; })

/* page.c: contents */
void content(const struct shadow *s, uint64_t *out, int as_zero);
void fill_page(const struct shadow *s, char *page);
int page_ok(const struct shadow *s, const char *page);
int page_zero(const char *page);

/* report.c */
void note(uint32_t what, uint64_t a, uint64_t b, uint64_t c);
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void die_page(const struct shadow *s, const char *page, const char *why) __attribute__((noreturn));
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void dump_logs(void);
void skip(const char *why);

/* model.c */
struct shadow *shadow_of(const struct region *r);
struct region *region_new(char *addr, uint32_t pages, uint32_t prot, enum kind kind);
struct region *pick(void);           /* some region, readable and writable; NULL if none */
struct region *pick_any(void);       /* some region, whatever its protection */
void span(const struct region *r, uint32_t max, uint32_t *first, uint32_t *n);
void make_rw(struct region *r);
void write_pages(struct region *r, uint32_t first, uint32_t n);
void poke_page(struct region *r, uint32_t i);
void verify_pages(const struct region *r, uint32_t first, uint32_t n);
void set_zero(struct region *r, uint32_t first, uint32_t n);
void next_version(struct region *r, uint32_t i);
void forget(struct region *r);       /* the mapping is gone */
void cut(struct region *r, uint32_t first, uint32_t n); /* a part of the mapping is gone */
void verify_consts(uint32_t first, uint32_t n);
void verify_everything(void);
void drop_everything(void);

/* snapshot.c: what a child must find */
struct snapshot;
struct snapshot *snapshot_take(int everyone);
void snapshot_drop(struct snapshot *);
int snapshot_verify(struct snapshot *, int write_too); /* 0 or 1; in the child */
_Atomic uint32_t *snapshot_result(struct snapshot *);
_Atomic int32_t *snapshot_pid(struct snapshot *);

/* signals.c */
void signals_start(void);
void signals_thread(void);           /* alternate stack of the calling thread */
void signals_thread_end(void);
void signals_tick(void);

/* ops */
struct op {
	const char *name;
	uint32_t weight;
	void (*run)(void);
	int alone; /* takes the world lock itself */
};
extern const struct op ops[];
extern const uint32_t ops_len;
void reap(int all);
void become_child(void);
int exec_check(uint64_t seed);

void op_map(void), op_unmap(void), op_punch(void), op_fixed(void), op_remap(void), op_protect(void);
void op_write(void), op_poke(void), op_verify(void), op_sweep(void), op_sleep(void), op_affinity(void);
void op_dontneed(void), op_free(void), op_advise(void), op_forkflags(void), op_lock(void);
void op_rw(void), op_vec(void), op_direct(void), op_uring(void), op_splice(void), op_pvm(void), op_selfmem(void);
void op_futex(void), op_threads(void), op_sharewrite(void), op_racezero(void), op_stack(void);
void op_fork(void), op_forkall(void), op_forkexec(void), op_vfork(void), op_spawn(void), op_clone(void);
void op_clonevm(void), op_daemon(void), op_uffd(void), op_malloc(void), op_code(void);
void op_sabotage(void);
#endif
