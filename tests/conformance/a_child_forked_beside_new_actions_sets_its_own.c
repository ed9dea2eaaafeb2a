// A thread sets the action for SIGSEGV again and again while another forks: each child sets its own as often as it likes.
// on: preload hardened
// flags: -pthread
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static int is_done;

static void handle(int number) {
    (void)number;
}

static void *set_actions(void *nothing) {
    while (!__atomic_load_n(&is_done, __ATOMIC_RELAXED))
        signal(SIGSEGV, handle);
    return nothing;
}

int main(void) {
    enum { THREADS = 2, CHILDREN = 1000, OFTEN = 40 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(threads + i, NULL, set_actions, NULL) == 0, "a thread");
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            for (int j = 0; j < OFTEN; j++)
                signal(SIGSEGV, handle);
            _exit(signal(SIGSEGV, handle) != handle);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "child %d to end well, not with %x", i, status);
    }
    __atomic_store_n(&is_done, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
