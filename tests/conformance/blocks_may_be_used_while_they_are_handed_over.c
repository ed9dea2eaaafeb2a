// Blocks of a heap are used by their owners while another thread hands them over: their bytes are told, they belong to the heap or to
// the one above it, never to the next one that is made, and realloc gives them more.
// on: preload locked hardened static
#include "check.h"
#include "heaps.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { WORKERS = 3, BLOCKS = 8, BYTES = 100, MORE = 20000, SECONDS = 3 };

static unsigned char *blocks[WORKERS * BLOCKS];
static atomic_int turn, done;
static atomic_int ends;
static vcm_heap heap, above;

static void use(unsigned char **block, int seed) {
    for (int i = 0; i < 20; i++) {
        EXPECT(malloc_usable_size(*block) >= BYTES, "at least the bytes that were asked for");
        vcm_heap of = heaps.of(*block);
        EXPECT(of == heap || of == above, "the block's heap, or the one above it");
    }
    *block = realloc(*block, MORE);
    EXPECT(*block, "realloc gives more");
    EXPECT(holds(*block, BYTES, seed), "the contents come along");
    EXPECT(malloc_usable_size(*block) >= MORE, "at least the bytes that were asked for");
}

static void *work(void *worker) {
    for (int seen = 0, seed = (int)(intptr_t)worker;;) {
        while (atomic_load(&turn) == seen)
            if (atomic_load(&ends))
                return NULL;
            else
                sched_yield();
        seen = atomic_load(&turn);
        for (int i = 0; i < BLOCKS; i++)
            use(&blocks[seed * BLOCKS + i], seed);
        atomic_fetch_add(&done, 1);
    }
}

int main(void) {
    find_heaps();
    pthread_t threads[WORKERS];
    for (intptr_t i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    vcm_heap parent = heap_below(VCM_HEAP_NONE, 0);
    time_t until = time(NULL) + SECONDS;
    for (int round = 0; time(NULL) < until; round++) {
        above = round & 1 ? parent : VCM_HEAP_PROCESS;
        heap = heap_below(round & 1 ? parent : VCM_HEAP_NONE, 0);
        for (int i = 0; i < WORKERS * BLOCKS; i++)
            fill(blocks[i] = heaps.malloc(heap, BYTES), BYTES, (unsigned)(i / BLOCKS));
        atomic_store(&done, 0);
        atomic_fetch_add(&turn, 1);
        for (volatile int wait = 0; wait < round * 37 % 4000; wait++)
            ;
        EXPECT(!heaps.destroy(heap, VCM_HEAP_HAND_OVER), "the heap to hand its blocks over");
        vcm_heap next = heap_below(VCM_HEAP_NONE, 0);
        while (atomic_load(&done) < WORKERS)
            sched_yield();
        for (int i = 0; i < WORKERS * BLOCKS; i++) {
            EXPECT(heaps.of(blocks[i]) == above, "no block in a heap that has nothing to do with it");
            free(blocks[i]);
        }
        EXPECT(!heaps.destroy(next, 0), "the next heap to end");
    }
    atomic_store(&ends, 1);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
