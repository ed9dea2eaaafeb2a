// A child of vfork that misuses the heap is stopped, and its parent with it, whose heap it is. A parent that is stopped leaves no
// child behind: one that runs in its memory, in a loop or in a wait for a lock that nobody leaves any more, ends as well.
// on: preload locked registered hardened
// limit: 240
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { THREADS = 4 };

static atomic_int child_runs;

static void *work(void *argument) {
    unsigned random = (unsigned)(uintptr_t)argument + 1;
    for (;;) {
        size_t bytes = next_random(&random) % 4 == 0 ? 300000 : next_random(&random) % 40000;
        free(malloc(bytes));
    }
    return NULL;
}

static void free_twice(void) {
    static void *volatile block;
    block = malloc(400000);
    free(block);
    free(block);
    block = malloc(40);
    free(block);
    free(block);
}

static void *work_in_a_child(void *argument) {
    if (vfork() == 0) {
        atomic_store(&child_runs, 1);
        work(argument);
    }
    return NULL;
}

static void be_quiet(void) {
    int null = open("/dev/null", O_WRONLY);
    EXPECT(null >= 0 && dup2(null, 2) == 2, "silence");
    close(null);
}

static void start(void *(*run)(void *)) {
    pthread_t thread;
    for (uintptr_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&thread, NULL, run, (void *)i) == 0, "a thread");
}

static void the_child_misuses(void) {
    start(work);
    usleep(2000);
    if (vfork() == 0) {
        free_twice();
        _exit(0);
    }
    pause();
}

static void the_parent_misuses(void) {
    start(work_in_a_child);
    start(work);
    while (!atomic_load(&child_runs))
        sched_yield();
    usleep(2000);
    free_twice();
    pause();
}

int main(void) {
    void (*const cases[])(void) = {the_child_misuses, the_parent_misuses};
    for (int i = 0; i < 6; i++) {
        int ends[2], status;
        char byte;
        EXPECT(pipe(ends) == 0, "a pipe");
        pid_t parent = fork();
        EXPECT(parent >= 0, "to fork");
        if (parent == 0) {
            close(ends[0]);
            be_quiet();
            cases[i % 2]();
        }
        close(ends[1]);
        EXPECT(waitpid(parent, &status, 0) == parent && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
               "the parent to be stopped, not status %x", status);
        /* Until the last one is gone that has the other end. */
        EXPECT(read(ends[0], &byte, 1) == 0, "all of them to end");
        close(ends[0]);
    }
    return 0;
}
