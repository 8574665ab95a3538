// Thousands of threads, each with some heap and stack, that wait for each other, look at what they have, and end.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAP = 9000, STACK = 6000, ROUNDS = 2 };

static pthread_barrier_t all;
static unsigned long *sums;

static void *serve(void *argument)
{
	unsigned long me = (unsigned long)argument;
	unsigned char stack[STACK], *heap = malloc(HEAP);
	memset(stack, (int)(me & 63), STACK);
	memset(heap, (int)(me & 31), HEAP);
	pthread_barrier_wait(&all);
	for (unsigned i = 0; i < STACK; i += 50)
		sums[me] += stack[i] + heap[i];
	if (stack[STACK / 2] != (me & 63) || heap[HEAP - 1] != (me & 31)) {
		printf("wrong in thread %lu\n", me);
		exit(3);
	}
	free(heap);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 2000;
	unsigned long total = 0;
	sums = calloc(count, sizeof *sums);
	pthread_t *threads = malloc(count * sizeof *threads);
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	pthread_barrier_init(&all, NULL, count);
	for (int round = 0; round < ROUNDS; round++) {
		for (unsigned long i = 0; i < count; i++) {
			if (pthread_create(&threads[i], &attributes, serve, (void *)i)) {
				printf("no thread %lu\n", i);
				return 4;
			}
		}
		for (unsigned i = 0; i < count; i++)
			pthread_join(threads[i], NULL);
	}
	for (unsigned i = 0; i < count; i++)
		total += sums[i];
	printf("%u threads, %lu\n", count, total);
}
