// A main thread and one thread for each CPU, each bound to its own as those of DPDK and Seastar: all are served by sequences with a
// limit for all CPUs, and what one allocates another frees.
// on: glibc preload hardened static
#include "check.h"
#include <pthread.h>
#include <sched.h>

#define BLOCKS 20000
#define MOST 64

static int cpus[MOST], count;
static void *blocks[MOST][BLOCKS];
static pthread_barrier_t turn;

static void bind_to(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    EXPECT(sched_setaffinity(0, sizeof one, &one) == 0, "to be bound");
}

static size_t size_of(int index) {
    return 1 + (size_t)index * 7919 % 3000;
}

static void *work(void *argument) {
    int self = (int)(intptr_t)argument;
    bind_to(cpus[self]);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            EXPECT((blocks[self][i] = malloc(size_of(i))) != NULL, "a block");
            fill(blocks[self][i], size_of(i), (unsigned)self);
        }
        pthread_barrier_wait(&turn);
        int other = (self + 1) % count;
        for (int i = 0; i < BLOCKS; i++) {
            EXPECT(holds(blocks[other][i], size_of(i), (unsigned)other), "what was written");
            free(blocks[other][i]);
        }
        pthread_barrier_wait(&turn);
    }
    return NULL;
}

int main(void) {
    cpu_set_t all;
    pthread_t threads[MOST];
    EXPECT(sched_getaffinity(0, sizeof all, &all) == 0, "the CPUs");
    for (int cpu = 0; cpu < CPU_SETSIZE && count < MOST; cpu++)
        if (CPU_ISSET(cpu, &all))
            cpus[count++] = cpu;
    bind_to(cpus[0]);
    EXPECT(pthread_barrier_init(&turn, NULL, (unsigned)count) == 0, "a barrier");
    for (int i = 0; i < count; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0, "a thread");
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    int (*get)(const char *, uint64_t *) = (int (*)(const char *, uint64_t *))dlsym(RTLD_DEFAULT, "vcm_stats_get");
    uint64_t limit = 0;
    if (get != NULL)
        EXPECT(get("cache_limit", &limit) == 0 && limit == (uint64_t)count * 16 * MIB, "16 MiB for each of %d CPUs, not %lu",
               count, (unsigned long)limit);
    return 0;
}
