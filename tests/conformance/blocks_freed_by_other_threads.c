// Blocks made by one thread and freed by another keep their contents on the way and do not pile up.
// on: glibc preload locked hardened static
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { PAIRS = 8, SLOTS = 256, BLOCKS = 100000 };

struct ring {
    _Atomic(unsigned *) slot[SLOTS];
};
static struct ring ring[PAIRS];

static void *produce(void *argument) {
    struct ring *to = argument;
    unsigned random = 77 + (unsigned)(to - ring);
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned bytes = 8 + next_random(&random) % (i % 100 == 0 ? 9000 : 600);
        unsigned *block = malloc(bytes);
        EXPECT(block != NULL, "%u bytes", bytes);
        block[0] = bytes;
        fill(block + 1, bytes - 4, bytes);
        while (atomic_load(&to->slot[i % SLOTS]) != NULL)
            sched_yield();
        atomic_store(&to->slot[i % SLOTS], block);
    }
    return NULL;
}

static void *consume(void *argument) {
    struct ring *from = argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned *block;
        while ((block = atomic_exchange(&from->slot[i % SLOTS], NULL)) == NULL)
            sched_yield();
        EXPECT(holds(block + 1, block[0] - 4, block[0]), "%u bytes kept on the way", block[0]);
        free(block);
    }
    return NULL;
}

static size_t resident(void) {
    unsigned long total = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file != NULL && fscanf(file, "%lu %lu", &total, &pages) == 2, "/proc/self/statm to be readable");
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

int main(void) {
    pthread_t thread[2 * PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        EXPECT(pthread_create(&thread[2 * i], NULL, produce, &ring[i]) == 0, "a producer");
        EXPECT(pthread_create(&thread[2 * i + 1], NULL, consume, &ring[i]) == 0, "a consumer");
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        pthread_join(thread[i], NULL);
    /* 250 MB went through; at most 8 x 256 blocks of 300 bytes were in flight. */
    EXPECT(resident() < 64 * MIB, "less than 64 MiB resident, not %zu", resident());
    return 0;
}
