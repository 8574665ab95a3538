/* Signals at any moment, on alternate stacks that are managed memory themselves. */
#include "torture.h"
#include <sys/time.h>

#define ALT (64 * 1024)

static int devnull = -1;

/* Reads pages that never change, uses a good piece of the stack, makes a call. */
static void on_tick(int sig, siginfo_t *info, void *context)
{
	int saved = errno;
	struct timespec t;
	volatile uint64_t frame[1024];
	(void)info;
	(void)context;
	clock_gettime(CLOCK_MONOTONIC, &t);
	uint64_t h = mix((uint64_t)t.tv_nsec + (uint64_t)sig);
	for (uint32_t i = 0; i < 1024; i += 16)
		frame[i] = h + i;
	verify_consts((uint32_t)(h % CONST_PAGES), 2);
	if (write(devnull, const_pages + (size_t)((h >> 20) % CONST_PAGES) * PAGE, PAGE) != PAGE)
		die("write(2) in a signal handler: %s", strerror(errno));
	for (uint32_t i = 0; i < 1024; i += 16)
		if (frame[i] != h + i)
			die("the stack of a signal handler changed at %p", (void *)(uintptr_t)&frame[i]);
	errno = saved;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	signal(sig, SIG_DFL);
	die("signal %d (code %d) at address %p", sig, info->si_code, info->si_addr);
}

void signals_start(void)
{
	struct sigaction sa = { .sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
	devnull = open("/dev/null", O_WRONLY | O_CLOEXEC);
	sigaction(SIGALRM, &sa, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_sigaction = on_fault;
	sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGILL, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	struct itimerval every = { { 0, 5300 }, { 0, 5300 } };
	setitimer(ITIMER_REAL, &every, NULL);
}

void signals_thread(void)
{
	stack_t s = { .ss_size = ALT };
	s.ss_sp = mmap(NULL, ALT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s.ss_sp == MAP_FAILED || sigaltstack(&s, NULL))
		die("sigaltstack: %s", strerror(errno));
	me->altstack = s.ss_sp;
}

void signals_thread_end(void)
{
	stack_t s = { .ss_flags = SS_DISABLE };
	sigaltstack(&s, NULL);
	munmap(me->altstack, ALT);
}

/* From the main thread: one signal to each worker that is still at work. */
void signals_tick(void)
{
	for (uint32_t i = 0; i < G->workers; i++)
		if (!G->worker[i].done)
			pthread_kill(G->worker[i].thread, SIGUSR1);
}
