/* Starts a command behind a filter that was there before it: `filtered CALL[,CALL] errno|kill COMMAND...`, with the calls
 * rseq and membarrier. */
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

#ifndef SECCOMP_RET_KILL_PROCESS
#define SECCOMP_RET_KILL_PROCESS 0x80000000u
#endif

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: filtered CALL[,CALL] errno|kill COMMAND...\n");
        return 64;
    }
    unsigned action = strcmp(arguments[2], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    unsigned rseq = strstr(arguments[1], "rseq") ? action : SECCOMP_RET_ALLOW;
    unsigned fence = strstr(arguments[1], "membarrier") ? action : SECCOMP_RET_ALLOW;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rseq, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, rseq),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, fence),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
        perror("filtered");
        return 77;
    }
    execvp(arguments[3], arguments + 3);
    perror(arguments[3]);
    return 127;
}
