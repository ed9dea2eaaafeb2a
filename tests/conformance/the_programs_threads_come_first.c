// If the system allows as many threads as the program needs, the program gets them all: the library's own gives way.
// on: glibc preload locked hardened
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>
#include <threads.h>

enum { THREADS = 5 };

static void *wait_forever(void *argument) {
    pause();
    return argument;
}

static int wait_forever_too(void *argument) {
    return wait_forever(argument) != NULL;
}

int main(void) {
    /* A user who has no other process, for the limit is his; root has none. */
    uid_t user = 200000 + (uid_t)getpid() % 100000;
    if (getuid() != 0 || setgid(user) != 0 || setuid(user) != 0)
        return 0;
    struct rlimit limit = {THREADS + 1, THREADS + 1};
    EXPECT(setrlimit(RLIMIT_NPROC, &limit) == 0, "a limit");
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        thrd_t other;
        int failed = i % 2 == 0 ? pthread_create(&thread, NULL, wait_forever, NULL)
                                : thrd_create(&other, wait_forever_too, NULL) != thrd_success;
        EXPECT(failed == 0, "thread %d of %d, not %s", i + 1, THREADS, strerror(failed));
    }
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, wait_forever, NULL) == EAGAIN, "no more than the limit");
    return 0;
}
