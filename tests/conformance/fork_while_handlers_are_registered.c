// A thread registers fork handlers, for whose list the C library allocates under a lock of its own, while another
// forks. Many processes, since each has a few such moments only. The handlers do nothing: had one taken a lock, glibc 2.36
// alone would now and then (3 of 400 processes on a busy machine) run it before a fork and not its partner afterwards.
// on: glibc preload locked hardened static
// args: 100
// args.preload: 400
// args.locked: 400
// args.kernels: 20
// limit: 240
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static atomic_int stop;

static void *register_handlers(void *argument) {
    unsigned random = (unsigned)(uintptr_t)argument;
    for (int i = 0; i < 400; i++) {
        pthread_atfork(NULL, NULL, NULL);
        for (volatile unsigned wait = next_random(&random) % 60000; wait > 0; wait--) {
        }
    }
    atomic_store(&stop, 1);
    return NULL;
}

static void process(int number) {
    pthread_t thread;
    alarm(100);
    EXPECT(pthread_create(&thread, NULL, register_handlers, (void *)(uintptr_t)(number + 1)) == 0, "a thread");
    while (!atomic_load(&stop)) {
        pid_t child = fork();
        EXPECT(child >= 0, "a fork");
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    pthread_join(thread, NULL);
    _exit(0);
}

int main(int count, char **arguments) {
    int processes = count > 1 ? atoi(arguments[1]) : 1000;
    /* The C library is the one that allocates; the archive is linked for this call. */
    free(malloc(100));
    for (int i = 0; i < processes; i++) {
        pid_t child = fork();
        EXPECT(child >= 0, "a process");
        if (child == 0)
            process(i);
        int status;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "process %d to go on, not status %x", i, status);
    }
    return 0;
}
