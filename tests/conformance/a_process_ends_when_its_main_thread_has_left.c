// Whichever way the main thread leaves, the process ends with the last thread of the program: none of the library's
// outlives it.
// on: glibc preload locked hardened
#include "end.h"
#include <pthread.h>
#include <threads.h>

static void *work(void *argument) {
    (void)argument;
    free(malloc(100000));
    usleep(50 * 1000);
    return NULL;
}

__attribute__((noreturn)) static void leave_by(int way) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
    pthread_detach(thread);
    if (way == 0)
        pthread_exit(NULL);
    if (way == 1)
        thrd_exit(0);
    pthread_cancel(pthread_self());
    for (;;)
        pause();
}

int main(void) {
    for (int way = 0; way < 3; way++) {
        pid_t child = fork();
        EXPECT(child >= 0, "a child");
        if (child == 0)
            leave_by(way);
        EXPECT(status_within(child, 10) == 0, "the child to end by itself, by way %d", way);
    }
    return 0;
}
