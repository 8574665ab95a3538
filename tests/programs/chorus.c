/*
 * chorus PROCESSES THREADS ROUNDS: all threads of all processes speak to the engine at once, each time anew. The call that
 * makes them speak fails, as it must. Prints "chorus: ok" if each was answered each time.
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 64

static pthread_barrier_t barrier;
static int rounds;

static void *ask(void *unused)
{
	struct uffdio_api api = { .api = UFFD_API };

	for (int i = 0; i < rounds; i++) {
		pthread_barrier_wait(&barrier);
		ioctl(-1, UFFDIO_API, &api);
	}
	return unused;
}

static int sing(int threads)
{
	pthread_t all[MOST];

	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, ask, NULL))
			return 2;
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	int processes = argc > 1 ? atoi(argv[1]) : 1, threads = argc > 2 ? atoi(argv[2]) : 1, status, failed = 0;

	rounds = argc > 3 ? atoi(argv[3]) : 1;
	if (threads < 1 || threads > MOST)
		return 2;
	for (int i = 0; i < processes; i++)
		if (!fork()) {
			alarm(60); /* who is not answered waits for ever */
			_exit(sing(threads));
		}
	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		return 1;
	puts("chorus: ok");
	return 0;
}
