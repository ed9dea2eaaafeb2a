// A heap with many spans is handed over while a thread with a small stack reallocates a block of it: the thread waits for the heap
// above, which gives what it asks for, and its stack does not grow.
// on: preload locked hardened static
#include "check.h"
#include "heaps.h"
#include <pthread.h>

enum { SPANS = 600000, STACK = 32 << 10, BEFORE = 300000 };

static atomic_int is_there, begins;
static unsigned char *block;

static void *resize(void *unused) {
    (void)unused;
    atomic_store(&is_there, 1);
    while (!atomic_load(&begins))
        ;
    usleep(2000);
    block = realloc(block, 30 * MIB);
    return NULL;
}

int main(void) {
    find_heaps();
    for (int round = 0; round < 2; round++) {
        vcm_heap heap = heap_below(VCM_HEAP_NONE, 0);
        block = heaps.malloc(heap, BEFORE);
        fill(block, BEFORE, 1);
        for (int i = 0; i < SPANS; i++)
            EXPECT(heaps.aligned(heap, 32 * KIB, 100), "block %d", i);
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, STACK);
        pthread_t thread;
        atomic_store(&is_there, 0);
        atomic_store(&begins, 0);
        EXPECT(!pthread_create(&thread, &small, resize, NULL), "a thread");
        while (!atomic_load(&is_there))
            usleep(100);
        atomic_store(&begins, 1);
        EXPECT(!heaps.destroy(heap, VCM_HEAP_HAND_OVER), "the heap to hand its blocks over");
        pthread_join(thread, NULL);
        EXPECT(block, "realloc gives more");
        EXPECT(holds(block, BEFORE, 1), "the contents come along");
        free(block);
    }
    return 0;
}
