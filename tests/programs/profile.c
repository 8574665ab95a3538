// Runs a command behind what a container runtime or a unit puts before its system calls.
//
// `profile KIND[+ptrace][+nice][+admin] COMMAND [ARG...]`, where KIND is
//   docker   what the default profile of moby and containerd refuses: what it does not name gets EPERM, clone3 ENOSYS
//   podman   what that of podman and CRI-O refuses: some by name with EPERM, what it does not name with ENOSYS
//   EPERM, ENOSYS   userfaultfd(2) alone
//   mdwe     MemoryDenyWriteExecute= of a unit: no memory becomes executable
// and the capabilities are those that the container has and that open more.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// Those that came later are in no profile of before: futex_wake and the like, cachestat, mseal.
#define FIRST_NEW 450
// Flags of clone that make namespaces.
#define NAMESPACES 0x7e020000
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

struct rule {
    int call;
    // What it answers in docker's and in podman's; 0 allows it.
    int docker, podman;
    // The capability that opens it.
    const char *opens;
};

static const struct rule rules[] = {
    {SYS_userfaultfd, EPERM, EPERM, NULL},
    {SYS_io_uring_setup, EPERM, ENOSYS, NULL},
    {SYS_io_uring_enter, EPERM, ENOSYS, NULL},
    {SYS_io_uring_register, EPERM, ENOSYS, NULL},
    {SYS_clone3, ENOSYS, 0, "+admin"},
    {SYS_unshare, EPERM, 0, "+admin"},
    {SYS_setns, EPERM, 0, "+admin"},
    {SYS_mount, EPERM, 0, "+admin"},
    {SYS_umount2, EPERM, 0, "+admin"},
    {SYS_pivot_root, EPERM, 0, NULL},
    {SYS_bpf, EPERM, EPERM, "+admin"},
    {SYS_perf_event_open, EPERM, EPERM, "+admin"},
    {SYS_fanotify_init, EPERM, EPERM, "+admin"},
    {SYS_process_madvise, EPERM, EPERM, "+ptrace"},
    {SYS_kcmp, EPERM, EPERM, "+ptrace"},
    {SYS_pidfd_getfd, EPERM, 0, "+ptrace"},
    {SYS_process_vm_readv, 0, EPERM, "+ptrace"},
    {SYS_process_vm_writev, 0, EPERM, "+ptrace"},
    {SYS_ptrace, 0, EPERM, "+ptrace"},
    {SYS_mbind, EPERM, EPERM, "+nice"},
    {SYS_get_mempolicy, EPERM, EPERM, "+nice"},
    {SYS_set_mempolicy, EPERM, EPERM, "+nice"},
    {SYS_migrate_pages, EPERM, EPERM, NULL},
    {SYS_move_pages, EPERM, EPERM, NULL},
    {SYS_membarrier, 0, EPERM, NULL},
    {SYS_vmsplice, 0, EPERM, NULL},
    {SYS_process_mrelease, 0, ENOSYS, NULL},
    {SYS_futex_waitv, 0, ENOSYS, NULL},
    {SYS_memfd_secret, 0, ENOSYS, NULL},
    {SYS_add_key, EPERM, ENOSYS, NULL},
    {SYS_request_key, EPERM, ENOSYS, NULL},
    {SYS_swapon, EPERM, EPERM, NULL},
};

static struct sock_filter code[256];
static unsigned short length;

static void add(struct sock_filter one) { code[length++] = one; }

static void refuse(int call, int answer) {
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | answer));
}

static void fill(const char *kind) {
    int docker = !strncmp(kind, "docker", 6), podman = !strncmp(kind, "podman", 6);
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    if (!docker && !podman)
        return refuse(SYS_userfaultfd, strcmp(kind, "ENOSYS") ? EPERM : ENOSYS);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *rule = rules + i;
        int answer = docker ? rule->docker : rule->podman;
        if (answer && !(rule->opens && strstr(kind, rule->opens)))
            refuse(rule->call, answer);
    }
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_NEW, 0, 1));
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (docker ? EPERM : ENOSYS)));
    if (docker && !strstr(kind, "+admin")) {
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
        add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)));
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1));
        add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
    }
}

int main(int count, char **words) {
    if (count < 3) {
        fprintf(stderr, "usage: profile KIND[+CAPABILITY...] COMMAND [ARG...]\n");
        return 2;
    }
    int failed;
    if (!strcmp(words[1], "mdwe")) {
        failed = prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0);
    } else {
        fill(words[1]);
        add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        struct sock_fprog program = {length, code};
        failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    }
    if (failed) {
        perror(words[1]);
        return 77;
    }
    execvp(words[2], words + 2);
    perror(words[2]);
    return 127;
}
