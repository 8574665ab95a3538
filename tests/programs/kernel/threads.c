/* Threads, their stacks, locks and signals in memory that goes out. */
#include "kernel.h"
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

#define TAG 81

static uint64_t __attribute__((noinline)) deep(uint64_t seed, int depth, int press_at)
{
	volatile uint64_t frame[500];
	for (uint64_t i = 0; i < 500; i++)
		frame[i] = seed * 31 + i;
	if (depth == press_at)
		press();
	uint64_t sum = depth ? deep(seed + 1, depth - 1, press_at) : 0;
	for (uint64_t i = 0; i < 500; i++)
		if (frame[i] != seed * 31 + i)
			fail("a stack frame at depth %d holds %#llx", depth, (unsigned long long)frame[i]);
	return sum + frame[7];
}

static void *deep_thread(void *arg)
{
	deep((uintptr_t)arg, 1000, -1);
	deep((uintptr_t)arg, 1000, 0);
	return NULL;
}

/* Deep stacks of the main thread and of others, out while they wait below. */
static void stacks(void)
{
	pthread_t t[4];
	pthread_attr_t a;
	char *own = map(6 * MIB);
	deep(1, 1500, 0);
	for (uintptr_t i = 0; i < 4; i++) {
		pthread_attr_init(&a);
		if (i == 0)
			pthread_attr_setstack(&a, own, 6 * MIB);
		else
			pthread_attr_setstacksize(&a, 6 * MIB);
		MUST(!pthread_create(&t[i], &a, deep_thread, (void *)i));
	}
	deep(2, 1500, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static ucontext_t main_context, other[16];

static void coroutine(int n)
{
	for (int k = 0; k < 3; k++) {
		deep((uint64_t)n, 20, -1);
		swapcontext(&other[n], &main_context);
	}
}

/* Stacks that the program made itself and jumps between. */
static void coroutines(void)
{
	for (volatile int n = 0; n < 16; n++) {
		MUST(!getcontext(&other[n]));
		other[n].uc_stack.ss_sp = map(256 * 1024);
		other[n].uc_stack.ss_size = 256 * 1024;
		other[n].uc_link = &main_context;
		makecontext(&other[n], (void (*)(void))coroutine, 1, (int)n);
	}
	for (int k = 0; k < 4; k++) {
		for (int n = 0; n < 16; n++)
			MUST(!swapcontext(&main_context, &other[n]));
		if (k < 3)
			press();
	}
}

static struct shared {
	pthread_mutex_t lock;
	char pad1[PAGE];
	pthread_cond_t more;
	char pad2[PAGE];
	uint64_t counter;
} *shared;
static _Atomic int stop;

static void *counts(void *arg)
{
	(void)arg;
	for (int i = 0; i < 3000; i++) {
		pthread_mutex_lock(&shared->lock);
		shared->counter++;
		pthread_cond_signal(&shared->more);
		pthread_mutex_unlock(&shared->lock);
		if (i % 500 == 0)
			usleep(20000);
	}
	return NULL;
}

static void *presses(void *arg)
{
	(void)arg;
	while (!stop)
		press();
	return NULL;
}

/* Mutexes and condition variables whose words are out while others wait on them. */
static void locks(void)
{
	pthread_t t[4], p;
	shared = (struct shared *)(void *)map(4 * PAGE);
	pthread_mutex_init(&shared->lock, NULL);
	pthread_cond_init(&shared->more, NULL);
	MUST(!pthread_create(&p, NULL, presses, NULL));
	for (int i = 0; i < 4; i++)
		MUST(!pthread_create(&t[i], NULL, counts, NULL));
	pthread_mutex_lock(&shared->lock);
	while (shared->counter < 12000)
		pthread_cond_wait(&shared->more, &shared->lock);
	pthread_mutex_unlock(&shared->lock);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	stop = 1;
	pthread_join(p, NULL);
	if (shared->counter != 12000)
		fail("the counter is %llu", (unsigned long long)shared->counter);
}

static _Atomic uint32_t *words;

static void *waits(void *arg)
{
	size_t i = (uintptr_t)arg;
	_Atomic uint32_t *w = &words[i * PAGE / 4];
	while (*w == 0)
		if (syscall(SYS_futex, w, i & 1 ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) && errno != EAGAIN && errno != EINTR)
			fail("futex: %s", strerror(errno));
	return NULL;
}

/* Threads sleep on words that go out; waking them finds them. */
static void futexes(void)
{
	pthread_t t[32];
	words = (_Atomic uint32_t *)(void *)map(32 * PAGE);
	for (int round = 0; round < 5; round++) {
		memset((void *)(uintptr_t)words, 0, 32 * PAGE);
		for (uintptr_t i = 0; i < 32; i++)
			MUST(!pthread_create(&t[i], NULL, waits, (void *)i));
		press();
		for (size_t i = 0; i < 32; i++) {
			words[i * PAGE / 4] = 1;
			syscall(SYS_futex, &words[i * PAGE / 4], i & 1 ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		}
		for (size_t i = 0; i < 32; i++)
			pthread_join(t[i], NULL);
	}
}

static char *looked_at;
static _Atomic unsigned long ticks;

static void on_tick(int sig)
{
	(void)sig;
	int saved = errno;
	size_t n = (ticks++ * 17) % (data_mib * MIB / PAGE);
	if (!matches(looked_at + n * PAGE, TAG, n))
		fail("a signal handler reads wrong bytes in page %zu", n);
	deep(n, 5, -1);
	errno = saved;
}

/* Handlers run at any moment, on an alternate stack that is out as often as not. */
static void signals(void)
{
	stack_t s = { .ss_sp = map(128 * 1024), .ss_size = 128 * 1024 };
	struct sigaction sa = { .sa_handler = on_tick, .sa_flags = SA_ONSTACK | SA_RESTART };
	struct itimerval t = { { 0, 1500 }, { 0, 1500 } }, off = { { 0, 0 }, { 0, 0 } };
	looked_at = map(data_mib * MIB);
	fill(looked_at, data_mib * MIB, TAG, 0);
	MUST(!sigaltstack(&s, NULL) && !sigaction(SIGALRM, &sa, NULL));
	press();
	setitimer(ITIMER_REAL, &t, NULL);
	for (int i = 0; i < 8; i++)
		press();
	setitimer(ITIMER_REAL, &off, NULL);
	if (ticks == 0)
		fail("no signal came");
	check(looked_at, data_mib * MIB, TAG, 0, "what handlers looked at");
}

static void on_segv(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	/* as garbage collectors do: the handler opens the page and the access goes on */
	char *page = (char *)((uintptr_t)info->si_addr & ~(PAGE - 1));
	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
		fail("mprotect in a handler of SIGSEGV");
	ticks++;
}

/* A program that lives on SIGSEGV sees those it caused, and no others. */
static void segv_barrier(void)
{
	size_t bytes = data_mib * MIB;
	struct sigaction sa = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };
	char *p = map(bytes);
	fill(p, bytes, TAG, 0);
	MUST(!sigaction(SIGSEGV, &sa, NULL));
	press();
	MUST(!mprotect(p, bytes, PROT_NONE));
	press();
	for (size_t n = 0; n < bytes / PAGE; n += 8)
		check(p + n * PAGE, PAGE, TAG, n, "opened by a handler");
	if (ticks != bytes / PAGE / 8)
		fail("%lu signals, must be %lu", (unsigned long)ticks, bytes / PAGE / 8);
	MUST(!mprotect(p, bytes, PROT_READ));
	ticks = 0;
	check(p, bytes, TAG, 0, "read-only");
	press();
	for (size_t n = 0; n < bytes / PAGE; n += 8)
		fill(p + n * PAGE, PAGE, TAG, n);
	if (ticks != bytes / PAGE / 8)
		fail("%lu signals for writes, must be %lu", (unsigned long)ticks, bytes / PAGE / 8);
	check(p, bytes, TAG, 0, "written through a handler");
}

struct reader {
	pthread_t thread;
	char *p;
	int backwards;
};

static void *reads(void *arg)
{
	struct reader *r = arg;
	size_t pages = data_mib * MIB / PAGE;
	for (int round = 0; round < 6; round++)
		for (size_t k = 0; k < pages; k++) {
			size_t n = r->backwards ? pages - 1 - k : k;
			check(r->p + n * PAGE, PAGE, TAG, n, "read by several threads");
		}
	return NULL;
}

/* Several threads want the same pages at the same time. */
static void same_pages(void)
{
	struct reader r[6];
	char *p = map(data_mib * MIB);
	pthread_t t;
	fill(p, data_mib * MIB, TAG, 0);
	press();
	MUST(!pthread_create(&t, NULL, presses, NULL));
	for (int i = 0; i < 6; i++) {
		r[i] = (struct reader){ .p = p, .backwards = i & 1 };
		MUST(!pthread_create(&r[i].thread, NULL, reads, &r[i]));
	}
	for (int i = 0; i < 6; i++)
		pthread_join(r[i].thread, NULL);
	stop = 1;
	pthread_join(t, NULL);
}

static void *adds(void *arg)
{
	_Atomic uint64_t *w = arg;
	for (uint64_t i = 0; i < 200000; i++) {
		/* one counter for each of 2048 pages */
		atomic_fetch_add_explicit(&w[(i * 7919 % 2048) * WORDS], 1, memory_order_relaxed);
	}
	return NULL;
}

/* Not one of many concurrent additions is lost while the pages come and go. */
static void counters(void)
{
	pthread_t t[4], p;
	char *w = map(2048 * PAGE);
	MUST(!pthread_create(&p, NULL, presses, NULL));
	for (int i = 0; i < 4; i++)
		MUST(!pthread_create(&t[i], NULL, adds, w));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	stop = 1;
	pthread_join(p, NULL);
	uint64_t sum = 0;
	for (size_t n = 0; n < 2048; n++)
		sum += *(uint64_t *)(void *)(w + n * PAGE);
	if (sum != 800000)
		fail("%llu additions, must be 800000", (unsigned long long)sum);
}

static void *short_life(void *arg)
{
	char *p = map(32 * PAGE);
	fill(p, 32 * PAGE, (uintptr_t)arg, 0);
	deep((uintptr_t)arg, 10, -1);
	check(p, 32 * PAGE, (uintptr_t)arg, 0, "memory of a short thread");
	munmap(p, 32 * PAGE);
	return NULL;
}

/* Threads come and go by the hundred. */
static void many_threads(void)
{
	pthread_t t[16], p;
	MUST(!pthread_create(&p, NULL, presses, NULL));
	for (uintptr_t round = 0; round < 40; round++) {
		for (uintptr_t i = 0; i < 16; i++)
			MUST(!pthread_create(&t[i], NULL, short_life, (void *)(round * 16 + i)));
		for (int i = 0; i < 16; i++)
			pthread_join(t[i], NULL);
	}
	stop = 1;
	pthread_join(p, NULL);
}

static atomic_int done_telling;

struct teller {
	pthread_t thread;
	char *at;
	size_t bytes;
};

static void *tells_for_a_while(void *arg)
{
	struct teller *me = arg;
	while (!atomic_load(&done_telling))
		MUST(!madvise(me->at, me->bytes, MADV_DONTNEED));
	return NULL;
}

/* Have `count` threads tell of one change after the other, each of `bytes` of its own, until they are stopped. */
static void begin_telling(struct teller *tellers, int count, char *at, size_t bytes)
{
	atomic_store(&done_telling, 0);
	for (int i = 0; i < count; i++) {
		tellers[i] = (struct teller){ .at = at + i * bytes, .bytes = bytes };
		MUST(!pthread_create(&tellers[i].thread, NULL, tells_for_a_while, &tellers[i]));
	}
}

static void end_telling(struct teller *tellers, int count)
{
	atomic_store(&done_telling, 1);
	for (int i = 0; i < count; i++)
		pthread_join(tellers[i].thread, NULL);
}

/* A change of another thread must come to its end all the same. */
static void change_beside(int count, size_t each, size_t changes)
{
	struct teller tellers[2];
	size_t bytes = data_mib * MIB, pages = bytes / PAGE;
	char *p = map(bytes), *q = map(MIB), *gone = map(bytes);
	fill(p, bytes, 5, 0);
	fill(q, MIB, 6, 0);
	fill(gone, bytes, 7, 0);
	press();
	begin_telling(tellers, count, q, each);
	for (size_t i = 0; i < changes; i++) {
		size_t at = i * 2711 % pages;
		MUST(!munmap(gone + i * PAGE, PAGE));
		check(p + at * PAGE, PAGE, 5, at, "after a change beside others");
	}
	end_telling(tellers, count);
}

static void told_all_the_time(void)
{
	change_beside(1, MIB, 256);
}

/* Of little memory, so that moments at which nobody tells are rare. */
static void told_by_two(void)
{
	change_beside(2, PAGE, 64);
}

static char *in_step_pages;
static atomic_ulong in_step_met;

/* Each waits for the other after every page without giving up its cpu, so that one that is served late holds up both. */
static void *walks_in_step(void *arg)
{
	size_t me = (size_t)arg, pages = data_mib * MIB / PAGE;
	for (size_t i = 0; i < 4096; i++) {
		size_t at = (i * 2711 + me * 977) % pages;
		check(in_step_pages + at * PAGE, PAGE, 8, at, "in step");
		atomic_fetch_add(&in_step_met, 1);
		while (atomic_load(&in_step_met) < 2 * (i + 1))
			;
	}
	return NULL;
}

static void in_step(void)
{
	pthread_t t[2];
	in_step_pages = map(data_mib * MIB);
	fill(in_step_pages, data_mib * MIB, 8, 0);
	press();
	for (size_t i = 0; i < 2; i++)
		MUST(!pthread_create(&t[i], NULL, walks_in_step, (void *)i));
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

/* What stayed behind a move is replaced by half, and then all of it unmapped, which looks like the end of the move.
 * Meanwhile two others tell of changes without a pause, so that neap learns of it all at once. */
static void husk_beside_tellers(void)
{
	char *q = map(MIB), *at = map(MIB);
	fill(q, MIB, 6, 0);
	for (uint64_t round = 0; round < 8; round++) {
		struct teller tellers[2];
		char *other = map(MIB / 2);
		fill(at, MIB, round, 0);
		fill(other, MIB / 2, round, 256);
		press();
		begin_telling(tellers, 2, q, PAGE);
		char *to = mremap(at, MIB, MIB, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
		MUST(to != MAP_FAILED);
		MUST(mremap(other, MIB / 2, MIB / 2, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
		MUST(!munmap(at, MIB));
		MUST(mmap(at, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);
		for (size_t i = 0; i < MIB; i += 2 * PAGE)
			fill(at + i, PAGE, 7, i / PAGE);
		end_telling(tellers, 2);
		press();
		for (size_t i = 0; i < MIB; i += 2 * PAGE) {
			check(at + i, PAGE, 7, i / PAGE, "new memory where a husk was");
			check_zero(at + i + PAGE, PAGE, "what was not written of new memory where a husk was");
		}
		check(to, MIB, round, 0, "what moved away");
		MUST(!munmap(to, MIB));
	}
}

const struct mode thread_modes[] = {
	{ "stacks", stacks },	      { "coroutines", coroutines }, { "locks", locks },		{ "futexes", futexes },
	{ "signals", signals },	      { "segv-barrier", segv_barrier }, { "same-pages", same_pages }, { "counters", counters },
	{ "many-threads", many_threads }, { "told-all-the-time", told_all_the_time },
	{ "told-by-two", told_by_two }, { "in-step", in_step }, { "husk-beside-tellers", husk_beside_tellers }, { NULL, NULL },
};
