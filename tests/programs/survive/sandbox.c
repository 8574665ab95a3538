/* A seccomp filter for all threads, also one the program did not start: ioctl, recvmsg and socket are not
 * allowed, and who makes them is killed or gets EPERM. Memory is mapped before it and, bit by bit, after it. */
#include "survive.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PIECE = 256 };

int sandbox(size_t pages, int kills)
{
	char *memory = fresh(pages * PAGE);
	fill(memory, pages);
	unsigned answer = kills ? SECCOMP_RET_KILL_THREAD : SECCOMP_RET_ERRNO | 1;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_recvmsg, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) {
		perror("seccomp");
		return 77;
	}
	unsigned long all = wrong(memory, pages), count = pages;
	for (int piece = 0; piece < 16; piece++, count += PIECE) {
		char *more = fresh(PIECE * PAGE);
		fill(more, PIECE);
		all += wrong(more, PIECE);
	}
	_exit(verdict(all + wrong(memory, pages), count));
}
