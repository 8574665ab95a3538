/* What a test suite builds with a leak checker: fills a list, walks it, and loses a node or none. leak NODES LOSES */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
	struct node *next;
	unsigned number;
	char body[2032];
};

static struct node *head;

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 40000;
	int loses = argc > 2 ? atoi(argv[2]) : 0;
	for (long i = 0; i < count; i++) {
		struct node *node = malloc(sizeof *node);
		memset(node->body, (int)(i & 63), sizeof node->body);
		node->number = (unsigned)i;
		node->next = head;
		head = node;
	}
	unsigned long sum = 0;
	for (struct node *node = head; node; node = node->next)
		sum += node->number * 31 + node->body[100];
	printf("sum %lu\n", sum);
	fflush(stdout);
	if (loses)
		head = head->next;
	return 0;
}
