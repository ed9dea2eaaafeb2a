// A thread forks. The child makes a thread and joins it, and the function returns that its first thread was started
// with: then the program's last thread is gone, and the process ends, with what it left to be done at its end. The
// same in the child of a child.
// on: glibc preload locked hardened
#include "end.h"
#include <pthread.h>

static int left_to_do[2];
static pid_t child;

static void at_end(void) {
    EXPECT(write(left_to_do[1], "x", 1) == 1, "to tell of the end");
}

static void *allocate(void *argument) {
    free(malloc(100000));
    return argument;
}

static void *fork_and_return(void *argument) {
    pid_t forked = fork();
    EXPECT(forked >= 0, "a fork");
    if (forked != 0) {
        child = forked;
        return NULL;
    }
    pthread_t thread;
    void *(*next)(void *) = argument == NULL ? allocate : fork_and_return;
    EXPECT(pthread_create(&thread, NULL, next, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    int status;
    if (argument != NULL)
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "the child's child to end, not status %x", status);
    return NULL;
}

int main(void) {
    EXPECT(pipe(left_to_do) == 0 && atexit(at_end) == 0, "a pipe");
    for (uintptr_t deep = 0; deep < 2; deep++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, fork_and_return, (void *)deep) == 0, "a thread");
        pthread_join(thread, NULL);
        EXPECT(status_within(child, 20) == 0, "child %d to end by itself", (int)deep);
        char told[2];
        EXPECT(read(left_to_do[0], told, 1 + deep) == (ssize_t)(1 + deep), "what was to be done at the end");
    }
    _exit(0);
}
