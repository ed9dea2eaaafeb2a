// A container that is given fewer CPUs while its daemon runs, or more, gets the caches' limit for these within seconds.
// If no cpuset can be made (not root, no such hierarchy, one CPU), there is nothing to see.
// on: preload hardened
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>

static char group[200], before[200];

static int put(const char *folder, const char *file, const char *text) {
    char path[500];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int to = open(path, O_WRONLY);
    if (to < 0)
        return 0;
    int written = write(to, text, strlen(text)) == (ssize_t)strlen(text);
    close(to);
    return written;
}

/* Makes a cpuset of these CPUs below the root's, version 1 or 2, and goes there. */
static int enter(const char *cpus) {
    static const char *const roots[] = {"/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"};
    char own[20];
    snprintf(own, sizeof own, "%d", getpid());
    for (int root = 0; root < 2; root++) {
        snprintf(before, sizeof before, "%s", roots[root]);
        snprintf(group, sizeof group, "%s/vcm-test-%s", before, own);
        if (mkdir(group, 0755) != 0)
            continue;
        put(group, "cpuset.mems", "0");
        if (put(group, "cpuset.cpus", cpus) && put(group, "cgroup.procs", own))
            return 1;
        rmdir(group);
    }
    return 0;
}

static void leave(void) {
    char own[20];
    snprintf(own, sizeof own, "%d", getpid());
    put(before, "cgroup.procs", own);
    rmdir(group);
}

static void *work(void *stop) {
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
        void *volatile block = malloc(1000);
        free(block);
        usleep(1000);
    }
    return NULL;
}

static uint64_t limit(void) {
    int (*get)(const char *, uint64_t *) = (int (*)(const char *, uint64_t *))function("vcm_stats_get");
    uint64_t bytes = 0;
    EXPECT(get("cache_limit", &bytes) == 0, "the limit");
    return bytes;
}

/* The limit once it is this, or after half a minute. */
static uint64_t limit_or_wait(uint64_t wanted) {
    for (int i = 0; i < 300 && limit() != wanted; i++)
        usleep(100000);
    return limit();
}

int main(void) {
    int (*option_set)(const char *, const char *) = (int (*)(const char *, const char *))function("vcm_option_set");
    cpu_set_t all;
    EXPECT(sched_getaffinity(0, sizeof all, &all) == 0, "the CPUs");
    int first = 0, stop = 0, count = CPU_COUNT(&all);
    while (!CPU_ISSET(first, &all))
        first++;
    char one[20];
    snprintf(one, sizeof one, "%d", first);
    EXPECT(option_set("release_delay", "100ms") == 0, "the option");
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, &stop) == 0, "a thread");
    uint64_t with_all = limit();
    if (count > 1 && enter(one)) {
        atexit(leave);
        uint64_t with_one = limit_or_wait(with_all / count);
        leave();
        EXPECT(with_one == with_all / count, "the limit of one CPU, %lu bytes, not %lu", (unsigned long)with_all / count,
               (unsigned long)with_one);
        EXPECT(limit_or_wait(with_all) == with_all, "the limit of all again");
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    return 0;
}
