/* How many instructions a malloc and a free take on aarch64 that hit the cache: a tracer steps through a child. A stop in
 * a restartable sequence would abort it, so its announcement is taken away before the child goes on: the child has one
 * thread, and nobody else touches its caches.
 * Prints what bench/golden/fast-path-instructions-aarch64.txt holds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIRS 9

static struct user_regs_struct registers_of(pid_t child) {
    struct user_regs_struct registers;
    struct iovec vector = {&registers, sizeof registers};
    if (ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &vector) != 0) {
        perror("count: registers");
        exit(3);
    }
    return registers;
}

static uint64_t step(pid_t child, char *announced) {
    if (ptrace(PTRACE_PEEKDATA, child, announced, NULL) != 0) {
        ptrace(PTRACE_POKEDATA, child, announced, NULL);
    }
    int status;
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
        fprintf(stderr, "count: the child did not step\n");
        exit(3);
    }
    return registers_of(child).pc;
}

static int most_frequent(const int *lengths) {
    int best = 0, times = 0;
    for (int i = 0; i < PAIRS; i++) {
        int same = 0;
        for (int j = 0; j < PAIRS; j++) {
            same += lengths[j] == lengths[i];
        }
        if (same > times || (same == times && lengths[i] < best)) {
            best = lengths[i];
            times = same;
        }
    }
    return best;
}

int main(void) {
    uint64_t allocate = (uint64_t)dlsym(RTLD_DEFAULT, "malloc"), release = (uint64_t)dlsym(RTLD_DEFAULT, "free");
    char *announced = (char *)__builtin_thread_pointer() + __rseq_offset + 8;
    printf("instructions of vcmalloc, cache hit, aarch64\n%6s %7s %5s\n", "bytes", "malloc", "free");
    fflush(stdout);
    for (size_t bytes = 16; bytes <= 4096; bytes *= 16) {
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 1000; i++) {
                free(malloc(bytes));
            }
            ptrace(PTRACE_TRACEME, 0, NULL, NULL);
            raise(SIGSTOP);
            for (;;) {
                free(malloc(bytes));
            }
        }
        int status, lengths[2][PAIRS], seen[2] = {0, 0};
        waitpid(child, &status, 0);
        while (seen[1] < PAIRS) {
            uint64_t at = step(child, announced);
            if (at != allocate && at != release) {
                continue;
            }
            int which = at == release, length = 1;
            for (uint64_t caller = registers_of(child).regs[30]; step(child, announced) != caller;) {
                length++;
            }
            if (seen[which] < PAIRS) {
                lengths[which][seen[which]++] = length;
            }
        }
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        printf("%6zu %7d %5d\n", bytes, most_frequent(lengths[0]), most_frequent(lengths[1]));
    }
    return 0;
}
