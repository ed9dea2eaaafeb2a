// Threads resize blocks by rallocx while the heap that they are of is handed over: there is memory, so none is null. Ours only.
#include "expect.h"
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { WORKERS = 3, BLOCKS = 8, BYTES = 100, MORE = 20000, SECONDS = 3 };

uint64_t vcm_heap_new(const char *name, const void *options) __attribute__((weak));
void *vcm_heap_malloc(uint64_t heap, size_t bytes) __attribute__((weak));
int vcm_heap_destroy(uint64_t heap, int how) __attribute__((weak));

static void *blocks[WORKERS * BLOCKS];
static atomic_int turn, done, ends;

static void *work(void *worker) {
    for (int seen = 0;;) {
        while (atomic_load(&turn) == seen) {
            if (atomic_load(&ends))
                return NULL;
            sched_yield();
        }
        seen = atomic_load(&turn);
        for (int i = 0; i < BLOCKS; i++) {
            void **block = &blocks[(intptr_t)worker * BLOCKS + i];
            errno = 0;
            *block = rallocx(*block, MORE, seen & 1 ? MALLOCX_ZERO : 0);
            EXPECT(*block && errno == 0, "errno %d", errno);
            memset(*block, 1, MORE);
        }
        atomic_fetch_add(&done, 1);
    }
}

int main(void) {
    EXPECT(is_ours() && vcm_heap_new, "heaps of ours");
    pthread_t threads[WORKERS];
    for (intptr_t i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    time_t until = time(NULL) + SECONDS;
    for (int round = 0; time(NULL) < until; round++) {
        uint64_t heap = vcm_heap_new("t", NULL);
        for (int i = 0; i < WORKERS * BLOCKS; i++)
            blocks[i] = vcm_heap_malloc(heap, BYTES);
        atomic_store(&done, 0);
        atomic_fetch_add(&turn, 1);
        for (volatile int wait = 0; wait < round * 37 % 4000; wait++)
            ;
        EXPECT(vcm_heap_destroy(heap, 1) == 0, "handed over");
        while (atomic_load(&done) < WORKERS)
            sched_yield();
        for (int i = 0; i < WORKERS * BLOCKS; i++)
            free(blocks[i]);
    }
    atomic_store(&ends, 1);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
