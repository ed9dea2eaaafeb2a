// Thousands of threads end in the scope of one of a thousand heaps, some with destructors that allocate; the next threads begin with
// the process's own heap, and the heaps end in each way with nothing lost. The argument is the number of threads.
// on: preload locked registered hardened static
// args: 20000
// args.locked: 5000
// args.registered: 5000
// args.static: 5000
// args.kernels: 500
// limit: 240
#include "heaps.h"
#include <limits.h>
#include <pthread.h>

enum { HEAPS = 1000, AT_ONCE = 50 };
static vcm_heap heap[HEAPS];
static _Atomic(unsigned char *) box[HEAPS];
static pthread_key_t key;

static void at_end(void *block) {
    unsigned char *more = malloc(150);
    EXPECT(heaps.of(more) == heaps.of(block), "the scope also in a destructor");
    free(more);
    free(block);
}

static void *work(void *argument) {
    size_t number = (uintptr_t)argument;
    vcm_heap own = heap[number % HEAPS];
    void *first = malloc(50);
    EXPECT(heaps.of(first) == VCM_HEAP_PROCESS, "a new thread without a scope");
    free(first);
    EXPECT(heaps.push(own) == VCM_HEAP_PROCESS, "no scope before");
    for (size_t step = 0; step < 20; step++) {
        size_t bytes = 1 + (number * 31 + step * 977) % 2500;
        unsigned char *block = malloc(bytes);
        EXPECT(block && heaps.of(block) == own, "a block of the scope");
        memset(block, (int)(bytes & 255), bytes);
        /* Another thread frees it. */
        free(atomic_exchange(&box[(number * 7 + step * 13) % HEAPS], block));
    }
    if (number % 3 == 0)
        EXPECT(!pthread_setspecific(key, malloc(60)), "a value");
    return NULL;
}

int main(int count, char **arguments) {
    long threads = count > 1 ? atol(arguments[1]) : 20000;
    find_heaps();
    EXPECT(!pthread_key_create(&key, at_end), "a key");
    vcm_heap root = heap_below(VCM_HEAP_NONE, 0);
    for (int index = 0; index < HEAPS; index++)
        EXPECT((heap[index] = heap_below(index % 2 ? root : VCM_HEAP_NONE, 0)) != VCM_HEAP_NONE, "heap %d", index);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN + 32 * KIB);
    for (long done = 0; done < threads; done += AT_ONCE) {
        pthread_t thread[AT_ONCE];
        for (long index = 0; index < AT_ONCE; index++)
            EXPECT(!pthread_create(&thread[index], &small, work, (void *)(uintptr_t)(done + index)), "a thread");
        for (int index = 0; index < AT_ONCE; index++)
            pthread_join(thread[index], NULL);
    }
    for (int index = 0; index < HEAPS; index++)
        EXPECT(!heaps.destroy(heap[index], 1 + index % 2), "an end");
    for (int index = 0; index < HEAPS; index++)
        free(box[index]);
    EXPECT(stats_of(root).live_blocks == 0 && stats_of(root).children == 0, "nothing left");
    EXPECT(!heaps.destroy(root, VCM_HEAP_FREE), "an end");
    return 0;
}
