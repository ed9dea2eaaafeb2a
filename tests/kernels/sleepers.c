/* Threads that sleep most of the time and allocate a little in between, for some seconds: how many slabs do they come to
 * have, and do the bound and the release hold? `sleepers THREADS SECONDS [CPUS]`: with CPUS, all may run on so many. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static time_t until;
static int (*get)(const char *, uint64_t *);
static size_t (*release)(size_t);

static uint64_t figure(const char *key) {
    uint64_t value = 0;
    if (get(key, &value) != 0) {
        fprintf(stderr, "sleepers: no figure %s\n", key);
        exit(3);
    }
    return value;
}

static void *work(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    void *own[40] = {0};
    while (time(NULL) < until) {
        for (int i = 0; i < 40; i++) {
            void **place = &own[rand_r(&seed) % 40];
            size_t bytes = 16 + rand_r(&seed) % 2000;
            free(*place);
            if (!(*place = malloc(bytes))) {
                _exit(3);
            }
            memset(*place, 1, bytes);
        }
        usleep(1000 + rand_r(&seed) % 20000);
    }
    for (int i = 0; i < 40; i++) {
        free(own[i]);
    }
    return NULL;
}

int main(int count, char **arguments) {
    get = (int (*)(const char *, uint64_t *))dlsym(RTLD_DEFAULT, "vcm_stats_get");
    release = (size_t (*)(size_t))dlsym(RTLD_DEFAULT, "vcm_release");
    if (count < 3 || !get || !release) {
        fprintf(stderr, "usage, on vcmalloc: sleepers THREADS SECONDS [CPUS]\n");
        return 64;
    }
    int threads = atoi(arguments[1]);
    if (count > 3) {
        cpu_set_t set;
        CPU_ZERO(&set);
        for (int i = 0; i < atoi(arguments[3]); i++) {
            CPU_SET(i, &set);
        }
        if (sched_setaffinity(0, sizeof set, &set) != 0) {
            return 3;
        }
    }
    until = time(NULL) + atoi(arguments[2]);
    pthread_t *thread = calloc(threads, sizeof *thread);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1)) != 0) {
            return 3;
        }
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
    }
    uint64_t slabs = figure("slabs"), most = figure("cache_room_most"), limit = figure("cache_limit");
    uint64_t cached = figure("vcpu_caches") + figure("transfer");
    release(0);
    uint64_t left = figure("vcpu_caches") + figure("transfer"), dirty = figure("dirty_free");
    printf("sleepers: %d threads on %d of %ld CPUs: %llu slabs; cached %llu KiB, room at most %llu of %llu KiB; after a release %llu bytes cached, %llu bytes dirty\n",
        threads, count > 3 ? atoi(arguments[3]) : (int)sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF),
        (unsigned long long)slabs, (unsigned long long)cached >> 10, (unsigned long long)most >> 10, (unsigned long long)limit >> 10,
        (unsigned long long)left, (unsigned long long)dirty);
    /* Of a page that is longer than a unit of the heap, 16 KiB, a part may be free that cannot go. */
    int is_clean = dirty == 0 || sysconf(_SC_PAGESIZE) > 16384;
    /* What printing itself takes may come back to a cache. */
    return most <= limit && cached <= limit && left <= 16384 && is_clean ? 0 : 1;
}
