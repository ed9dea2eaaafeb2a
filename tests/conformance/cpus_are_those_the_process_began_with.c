// A main thread that binds itself to one CPU before its first thread, as OpenMP's does, leaves the others to its threads: the
// caches' limit is that of all CPUs that the process began with.
// on: preload hardened
#include "check.h"
#include <pthread.h>
#include <sched.h>

static void *work(void *argument) {
    free(malloc(100));
    return argument;
}

int main(void) {
    int (*get)(const char *, uint64_t *) = (int (*)(const char *, uint64_t *))function("vcm_stats_get");
    uint64_t limit = 0, without = 0;
    cpu_set_t all, one;
    EXPECT(sched_getaffinity(0, sizeof all, &all) == 0, "the CPUs");
    int first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    for (int bound = 1; bound >= 0; bound--) {
        int ends[2];
        EXPECT(pipe(ends) == 0, "a pipe");
        pid_t child = fork();
        EXPECT(child >= 0, "to fork");
        if (child == 0) {
            pthread_t thread;
            EXPECT(!bound || sched_setaffinity(0, sizeof one, &one) == 0, "to be bound");
            EXPECT(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
            pthread_join(thread, NULL);
            EXPECT(get("cache_limit", &limit) == 0, "the limit");
            EXPECT(write(ends[1], &limit, sizeof limit) == sizeof limit, "to tell it");
            _exit(0);
        }
        EXPECT(read(ends[0], bound ? &limit : &without, sizeof limit) == sizeof limit, "the child's limit");
    }
    EXPECT(limit == without, "%lu bytes of cache in a bound process, as in another, not %lu", (unsigned long)without,
           (unsigned long)limit);
    return 0;
}
