/* What the files of this program share: the words of the wire, and an offer. */
#ifndef STRANGER_H
#define STRANGER_H
#include <stdint.h>
#include <sys/types.h>

#define PAGE 4096ul
#define VERSION 12

struct hello { uint32_t magic, version, purpose, flags; uint64_t arg, arg2, number; };
struct welcome { uint32_t magic, refused; uint64_t stage_bytes; uint32_t flags, reserved; uint64_t proof; };
struct attach { uint32_t magic, reserved; uint64_t stage, agent, agent_bytes, cookie; uint32_t lacks; int32_t error;
	uint64_t notes, imprint; };
struct ready { uint32_t magic, refused; uint64_t number, family, proof; };
struct reply { uint32_t magic, done; int32_t error; uint32_t thread; uint8_t pages[64]; };

/* How an offer lies. */
enum { HONEST, OTHER_FILES, ZERO_MAPS, ZERO_PAGEMAP, ZERO_MEM, FIFO_MAPS, FILE_MAPS, OTHER_MEM, OTHER_MAPS, NULL_UFFD, EVENT_UFFD,
       BLOCKING_UFFD, OTHER_UFFD, NO_STAGE, ODD_STAGE, UNMAPPED_STAGE, SHARED_STAGE, TOUCHED_STAGE, HUGE_AGENT, FEW, MANY, LIES };

extern uint32_t magic;
/* A process that is offered for this one. */
extern pid_t other;

int dial(void);
int say(int fd, const void *bytes, size_t len, const int *fds, int count);
ssize_t hear(int fd, void *bytes, size_t len, int millis, int *got);
int file_of(pid_t pid, const char *name);
int offer_as(struct hello hello, int lie);
int neighbour(pid_t pid);

#endif
