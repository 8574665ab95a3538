/* What a mode needs to know of the others: nothing but this. */
#pragma once
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096ul

/* New private memory; ends the program if there is none. */
char *fresh(size_t bytes);
/* Writes every page so that it compresses little, its number first. */
void fill(char *memory, size_t pages);
/* Pages that do not begin with their number. */
size_t wrong(const char *memory, size_t pages);
/* Says how many pages were wrong, by system calls alone; the exit status. */
int verdict(size_t bad, size_t pages);

int sandbox(size_t pages, int kills);
int vforked(size_t pages);
int heirs(size_t pages);
int orphans(size_t pages);
int moves(size_t pages);
int churn(size_t pages);
int husks(size_t pages);
int wiped(size_t pages);
int grows_locked(size_t pages);
int covered(size_t pages);
int holes(size_t pages);
int kept(size_t pages);
int carried(size_t pages);
int advised(size_t pages);
int children(size_t pages);
int shuffle(size_t pages);
int cut(size_t pages);
int turns(size_t pages);
int trapped(size_t pages);
int pieced(size_t pages);
