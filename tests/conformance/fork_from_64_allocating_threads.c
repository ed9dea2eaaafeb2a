// A child of a process with 64 threads that never stop allocating can allocate at once; the argument says how
// often.
// on: glibc preload locked registered hardened static
// args: 1000
// args.preload: 3000
// args.hardened: 100
// args.kernels: 20
// limit: 240
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { THREADS = 64 };
static atomic_int stop;

static void *work(void *argument) {
    /* Last in the queue for a processor, or each fork would wait for 64 others' turns. */
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
    unsigned random = (unsigned)(uintptr_t)argument;
    void *block[32] = {0};
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        for (int i = 0; i < 100; i++) {
            int slot = next_random(&random) % 32;
            free(block[slot]);
            block[slot] = malloc(random % 64 == 0 ? random % 500000 : random % 1000);
        }
        /* Short turns: fork waits for a lock whose owner was sent to the end of the queue. */
        sched_yield();
    }
    for (int slot = 0; slot < 32; slot++)
        free(block[slot]);
    return NULL;
}

/* In the child: every layer once, small sizes often enough to pass the caches. */
static void allocate(void) {
    void *block[300];
    for (int i = 0; i < 300; i++)
        block[i] = malloc(1 + (i * 37) % 2000);
    for (int i = 0; i < 300; i++) {
        EXPECT(block[i] != NULL, "a block in the child");
        memset(block[i], 1, 1 + (i * 37) % 2000);
        free(block[i]);
    }
    void *large = malloc(600000);
    EXPECT(large != NULL, "a large block in the child");
    large = realloc(large, 900000);
    EXPECT(large != NULL, "a resized block in the child");
    free(large);
    mallinfo2();
}

int main(int count, char **arguments) {
    int forks = count > 1 ? atoi(arguments[1]) : 1000;
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&thread[i], NULL, work, (void *)(i + 1)) == 0, "a thread");
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        EXPECT(child >= 0, "fork %d", i);
        if (child == 0) {
            alarm(100);
            allocate();
            _exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child, "to wait for child %d", i);
        EXPECT(!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM, "child %d to allocate, but it hung", i);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0,
               "child %d to succeed, not status %x", i, status);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
