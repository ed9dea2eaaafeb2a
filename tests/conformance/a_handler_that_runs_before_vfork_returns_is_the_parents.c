// A signal that a child of vfork sends its parent is handled before vfork returns: the handler is the parent's, and one that jumps out leaves a
// process that ends with its threads.
// on: glibc preload locked hardened
// flags: -pthread
#include "end.h"
#include <pthread.h>
#include <setjmp.h>

static sigjmp_buf before;
static void *volatile block;

static void jump(int number) {
    (void)number;
    siglongjmp(before, 1);
}

static void *end_later(void *nothing) {
    usleep(100000);
    return nothing;
}

static void leave_vfork_by_a_jump(void) {
    pthread_t thread;
    signal(SIGUSR1, jump);
    EXPECT(pthread_create(&thread, NULL, end_later, NULL) == 0, "a thread");
    pid_t own = getpid();
    if (sigsetjmp(before, 1) == 0 && vfork() == 0) {
        kill(own, SIGUSR1);
        _exit(0);
    }
    block = malloc(100000);
    free(block);
    pthread_exit(NULL);
}

int main(void) {
    pid_t child = fork();
    if (child == 0)
        leave_vfork_by_a_jump();
    int status = status_within(child, 10);
    EXPECT(status == 0, "a good end, not %x", status);
    return 0;
}
