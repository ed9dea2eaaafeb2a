// If a filter keeps the thread from taking its registration for restartable sequences back, a child of vfork or clone
// does not share its memory: it has a copy, as one of fork. Its parent waits for it all the same.
// on: preload registered hardened
#include "check.h"
#include "filter.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static atomic_int stop;
static volatile int changed;
static int ends[2];
static char stack[256 * 1024];
extern const ptrdiff_t __rseq_offset __attribute__((weak));

static void *work(void *argument) {
    (void)argument;
    while (!atomic_load(&stop)) {
        unsigned char *block = malloc(3000);
        fill(block, 3000, 1);
        EXPECT(holds(block, 3000, 1), "a block to be its owner's alone");
        free(block);
    }
    return NULL;
}

static int live(void *argument) {
    (void)argument;
    for (int i = 0; i < 100; i++) {
        unsigned char *block = malloc(3000);
        fill(block, 3000, 2);
        EXPECT(holds(block, 3000, 2), "a child's block to be its own");
        free(block);
    }
    usleep(2000);
    changed = 1;
    EXPECT(write(ends[1], "", 1) == 1, "a byte for the parent");
    _exit(0);
}

int main(void) {
    struct filter filter;
    pthread_t thread[2];
    EXPECT(pipe2(ends, O_NONBLOCK) == 0, "a pipe");
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&thread[i], NULL, work, NULL) == 0, "a thread");
    free(malloc(1));
    begin_filter(&filter);
    ANSWER(&filter, SECCOMP_RET_ERRNO | EPERM, SYS_rseq);
    end_filter(&filter, SECCOMP_RET_ALLOW);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter.program) == 0, "a filter");
    for (int i = 0; i < 40; i++) {
        int status;
        pid_t child;
        if (i % 2 == 0) {
            child = vfork();
            if (child == 0)
                live(NULL);
        } else {
            child = clone(live, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        }
        char byte;
        EXPECT(child > 0 && read(ends[0], &byte, 1) == 1, "the parent to have waited");
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "a child that succeeds, not status %x", status);
        EXPECT(!changed, "the memory to be the parent's own");
        free(malloc(3000));
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
