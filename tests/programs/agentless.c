// Fills `agentless MIB`, then lets no thread start any more, and forks. The child looks whether its memory is what it
// was, has some of it wiped on fork, and forks; its child looks whether that is wiped, and the rest as it was.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIPED = 16 << 20 };

static unsigned char at(size_t line) { return (unsigned char)(line * 31 + 7); }

static void let_no_thread_start(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("seccomp");
        exit(2);
    }
}

// From line `from` on as it was, and wiped before.
static int is_right(const unsigned char *memory, size_t from, size_t bytes) {
    for (size_t line = 0; line < bytes / 64; line++) {
        if (memory[line * 64] != (line < from ? 0 : at(line))) {
            return 0;
        }
    }
    return 1;
}

static int child_is_right(void) {
    int status;
    return wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv) {
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 96) << 20;
    unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t line = 0; line < bytes / 64; line++) {
        memset(memory + line * 64, at(line), 64);
    }
    let_no_thread_start();
    pid_t child = fork();
    if (child == 0) {
        // What is to be wiped is not looked at before: it may be elsewhere.
        if (!is_right(memory + WIPED, 0, bytes - WIPED) || madvise(memory, WIPED, MADV_WIPEONFORK)) {
            _exit(1);
        }
        pid_t grandchild = fork();
        if (grandchild == 0) {
            _exit(!is_right(memory, WIPED / 64, bytes));
        }
        _exit(grandchild < 0 || !child_is_right() || !is_right(memory, 0, bytes));
    }
    puts(child > 0 && child_is_right() ? "right" : "wrong");
    return 0;
}
