/* torture: see torture.h. */
#include "torture.h"
#include <getopt.h>
#include <sched.h>
#include <sys/prctl.h>

struct global *G;
struct shadow *shadows;
char *const_pages;
__thread struct worker *me;

const struct op ops[] = {
	{ "map", 8, op_map, 0 },	   { "unmap", 4, op_unmap, 0 },	   { "punch", 3, op_punch, 0 },
	{ "fixed", 2, op_fixed, 0 },	   { "remap", 6, op_remap, 0 },	   { "protect", 4, op_protect, 0 },
	{ "write", 14, op_write, 0 },	   { "poke", 8, op_poke, 0 },	   { "verify", 18, op_verify, 0 },
	{ "sweep", 5, op_sweep, 0 },	   { "sleep", 2, op_sleep, 0 },	   { "affinity", 1, op_affinity, 0 },
	{ "dontneed", 5, op_dontneed, 0 }, { "free", 3, op_free, 0 },	   { "advise", 4, op_advise, 0 },
	{ "forkflags", 2, op_forkflags, 0 }, { "lock", 2, op_lock, 0 },	   { "rw", 5, op_rw, 0 },
	{ "vec", 3, op_vec, 0 },	   { "direct", 2, op_direct, 0 },  { "uring", 3, op_uring, 0 },
	{ "splice", 2, op_splice, 0 },	   { "pvm", 2, op_pvm, 0 },	   { "selfmem", 1, op_selfmem, 0 },
	{ "futex", 2, op_futex, 0 },	   { "threads", 2, op_threads, 0 }, { "sharewrite", 3, op_sharewrite, 0 },
	{ "racezero", 2, op_racezero, 0 }, { "stack", 2, op_stack, 0 },	   { "fork", 2, op_fork, 0 },
	{ "forkall", 1, op_forkall, 1 },   { "forkexec", 1, op_forkexec, 0 }, { "vfork", 1, op_vfork, 0 },
	{ "spawn", 1, op_spawn, 0 },	   { "clone", 1, op_clone, 0 },	   { "clonevm", 1, op_clonevm, 0 },
	{ "daemon", 1, op_daemon, 0 },	   { "uffd", 1, op_uffd, 0 },	   { "malloc", 5, op_malloc, 0 },
	{ "code", 1, op_code, 0 },	   { "sabotage", 0, op_sabotage, 0 },
};
const uint32_t ops_len = sizeof ops / sizeof *ops;

static uint32_t weight[64], weights;

static void *shared(size_t bytes)
{
	int fd = memfd_create("torture-model", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		exit(2);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		exit(2);
	return p;
}

static uint32_t choose(void)
{
	uint32_t x = below(weights), i = 0;
	while (x >= weight[i])
		x -= weight[i++];
	return i;
}

static void run_op(uint32_t i)
{
	me->op = i;
	me->beat = now_ms();
	if (!ops[i].alone)
		pthread_rwlock_rdlock(&G->world);
	ops[i].run();
	if (!ops[i].alone)
		pthread_rwlock_unlock(&G->world);
	G->op_count[i]++;
}

static void *work(void *arg)
{
	me = arg;
	signals_thread();
	while (!G->stop && !G->failed && (!G->count || me->opno < G->count)) {
		/* what comes next depends on seed, thread and number alone */
		me->opno++;
		me->rng = mix(G->seed ^ mix((uint64_t)me->id + 1)) + mix(me->opno);
		uint32_t i = choose();
		if (me->pages < G->budget / 2)
			run_op(0);
		run_op(i);
		reap(0);
	}
	me->beat = now_ms();
	reap(1);
	pthread_rwlock_rdlock(&G->world);
	verify_everything();
	drop_everything();
	pthread_rwlock_unlock(&G->world);
	signals_thread_end();
	me->done = 1;
	return NULL;
}

static uint64_t parse_size(const char *s)
{
	char *end;
	uint64_t n = strtoull(s, &end, 10);
	switch (*end) {
	case 'k': case 'K': return n << 10;
	case 'm': case 'M': return n << 20;
	case 'g': case 'G': return n << 30;
	default: return n;
	}
}

static void only(const char *list)
{
	for (uint32_t i = 0; i < ops_len; i++)
		weight[i] = 0;
	char *copy = strdup(list);
	for (char *t = strtok(copy, ","); t; t = strtok(NULL, ",")) {
		uint32_t i = 0;
		while (i < ops_len && strcmp(ops[i].name, t))
			i++;
		if (i == ops_len) {
			fprintf(stderr, "torture: no operation %s; there are:", t);
			for (i = 0; i < ops_len; i++)
				fprintf(stderr, " %s", ops[i].name);
			fprintf(stderr, "\n");
			exit(2);
		}
		weight[i] = ops[i].weight ? ops[i].weight : 1;
	}
	free(copy);
}

static uint64_t seconds = 10;

static void arguments(int argc, char **argv)
{
	static const struct option options[] = { { "seed", 1, 0, 's' }, { "seconds", 1, 0, 't' }, { "threads", 1, 0, 'n' },
		{ "memory", 1, 0, 'm' }, { "ops", 1, 0, 'o' }, { "op", 1, 0, 'o' }, { "verbose", 0, 0, 'v' },
		{ "count", 1, 0, 'c' }, { "stall", 1, 0, 'l' }, { "dir", 1, 0, 'd' }, { "exec-check", 1, 0, 'e' }, { 0, 0, 0, 0 } };
	uint64_t memory = 256ull << 20;
	int c;
	G->workers = 4;
	G->stall_ms = 120000;
	G->dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	G->seed = now_ms() ^ ((uint64_t)getpid() << 32);
	for (uint32_t i = 0; i < ops_len; i++)
		weight[i] = ops[i].weight;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': G->seed = strtoull(optarg, NULL, 0); break;
		case 't': seconds = strtoull(optarg, NULL, 0); break;
		case 'n': G->workers = (uint32_t)atoi(optarg); break;
		case 'm': memory = parse_size(optarg); break;
		case 'o': only(optarg); break;
		case 'v': G->verbose = 1; break;
		case 'c': G->count = strtoull(optarg, NULL, 0); break;
		case 'l': G->stall_ms = strtoull(optarg, NULL, 0) * 1000; break;
		case 'd': G->dir = optarg; break;
		case 'e': exit(exec_check(strtoull(optarg, NULL, 0)));
		default:
			fprintf(stderr, "usage: torture [--seed N] [--seconds S] [--count OPERATIONS] [--threads T] [--memory SIZE]\n"
				"               [--ops NAME,...] [--dir DIR] [--stall SECONDS] [--verbose]\n");
			exit(2);
		}
	}
	if (G->workers < 1 || G->workers > MAX_WORKERS || memory / PAGE / G->workers < 64) {
		fprintf(stderr, "torture: 1 to %d threads, each with 256K at least\n", MAX_WORKERS);
		exit(2);
	}
	G->budget = (uint32_t)(memory / PAGE / G->workers);
	G->max_pages = G->budget / 4 < 8192 ? G->budget / 4 : 8192;
	for (uint32_t i = 0; i < ops_len; i++)
		weights += weight[i];
}

static void start_workers(void)
{
	pthread_rwlockattr_t a;
	pthread_attr_t t;
	pthread_rwlockattr_init(&a);
	pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&G->world, &a);
	pthread_attr_init(&t);
	pthread_attr_setstacksize(&t, 8 << 20);
	for (uint32_t i = 0; i < G->workers; i++) {
		struct worker *w = &G->worker[i];
		w->id = i;
		w->next_ident = (uint64_t)(i + 1) << 40;
		w->beat = now_ms();
		if (pthread_create(&w->thread, &t, work, w))
			die("pthread_create");
	}
}

static void constants(void)
{
	const_pages = mmap(NULL, CONST_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (uint32_t i = 0; i < CONST_PAGES; i++) {
		G->const_shadow[i] = (struct shadow){ .ident = i + 1, .version = 1, .state = P_DATA };
		fill_page(&G->const_shadow[i], const_pages + (size_t)i * PAGE);
	}
	mprotect(const_pages, CONST_PAGES * PAGE, PROT_READ);
}

static uint32_t running(void)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < G->workers; i++) {
		struct worker *w = &G->worker[i];
		uint64_t beat = w->beat, now = now_ms();
		if (w->done)
			continue;
		n++;
		if (now > beat + G->stall_ms) {
			say("torture: STALL: thread %u is in one operation for %llu ms\n", i, (unsigned long long)(now - beat));
			me = w;
			dump_logs();
			_exit(3);
		}
	}
	return n;
}

static int finish(void)
{
	uint64_t verified = 0, written = 0, count = 0;
	for (uint32_t i = 0; i < G->workers; i++) {
		pthread_join(G->worker[i].thread, NULL);
		verified += G->worker[i].verified;
		written += G->worker[i].written;
	}
	for (uint32_t i = 0; i < ops_len; i++) {
		count += G->op_count[i];
		if (G->verbose)
			say("torture: %-10s %8llu, skipped %llu\n", ops[i].name, (unsigned long long)G->op_count[i],
				(unsigned long long)G->op_skipped[i]);
	}
	verify_consts(0, CONST_PAGES);
	if (G->failed)
		return 1;
	printf("torture: ok seed=%llu threads=%u operations=%llu pages_verified=%llu pages_written=%llu\n",
		(unsigned long long)G->seed, G->workers, (unsigned long long)count, (unsigned long long)verified,
		(unsigned long long)written);
	return 0;
}

int main(int argc, char **argv)
{
	G = shared(sizeof *G);
	me = &G->worker[MAX_WORKERS];
	me->id = MAX_WORKERS;
	arguments(argc, argv);
	say("torture: seed %llu, %u threads, %u MiB, %llu seconds\n", (unsigned long long)G->seed, G->workers,
		G->budget * G->workers / 256, (unsigned long long)seconds);
	shadows = shared((size_t)G->workers * MAX_REGIONS * G->max_pages * sizeof(struct shadow));
	constants();
	signals_start();
	signals_thread();
	start_workers();
	uint64_t end = now_ms() + seconds * 1000;
	while (running()) {
		usleep(20000);
		signals_tick();
		/* the main thread's own stack, which is not like the others */
		me->rng = mix(G->seed ^ me->opno++);
		if (me->opno % 16 == 0)
			op_stack();
		if (!G->count && now_ms() >= end)
			G->stop = 1;
	}
	return finish();
}
