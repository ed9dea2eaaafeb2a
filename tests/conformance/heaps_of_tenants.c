// Blocks of a tenant's heap keep their contents, are counted and bounded, belong to it wherever they are freed, and go with it.
// on: preload locked registered hardened static
// limit: 240
#include "check.h"
#include "heaps.h"
#include <pthread.h>

enum { THREADS = 8, ROUNDS = 20000, KEPT = 64 };

static _Atomic(unsigned char *) box[THREADS];

/* Allocates in a heap, and frees what another thread got. */
static void *work(void *argument) {
    vcm_heap heap = *(vcm_heap *)argument;
    unsigned char *kept[KEPT] = {0};
    unsigned random = (unsigned)(uintptr_t)&heap | 1;
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1103515245 + 12345;
        size_t length = 8 + (random >> 8) % (round % 97 ? 2000 : 400000);
        unsigned char **place = &kept[(random >> 16) % KEPT];
        if (*place) {
            EXPECT((*place)[0] == (*place)[7], "contents that stay");
            unsigned char *none = NULL;
            if (!atomic_compare_exchange_strong(&box[(random >> 24) % THREADS], &none, *place))
                free(*place);
        }
        *place = heaps.malloc(heap, length);
        EXPECT(*place, "a block");
        memset(*place, round, length);
        EXPECT(heaps.of(*place) == heap, "a block of the heap that gave it");
        if (round % 5 == 0) {
            *place = realloc(*place, length * 2);
            EXPECT(*place && heaps.of(*place) == heap, "a block that stays in its heap");
        }
        if (round % 11 == 0) {
            unsigned char *taken = atomic_exchange(&box[(random >> 20) % THREADS], NULL);
            free(taken);
        }
    }
    for (int index = 0; index < KEPT; index++)
        free(kept[index]);
    return NULL;
}

static void *unpushed(void *heap) {
    void *block = malloc(100);
    EXPECT(heaps.of(block) == VCM_HEAP_PROCESS, "a new thread's own heap, not %p's", heap);
    free(block);
    return NULL;
}

int main(void) {
    find_heaps();
    vcm_heap heap[2] = {heaps.new("one", NULL), heaps.new("other", NULL)};
    EXPECT(heap[0] && heap[1] && heap[0] != heap[1], "two heaps");
    pthread_t thread[THREADS];
    for (int index = 0; index < THREADS; index++)
        EXPECT(!pthread_create(&thread[index], NULL, work, &heap[index % 2]), "a thread");
    for (int index = 0; index < THREADS; index++)
        pthread_join(thread[index], NULL);
    for (int index = 0; index < THREADS; index++)
        free(box[index]);
    EXPECT(stats_of(heap[0]).live == 0 && stats_of(heap[1]).live_blocks == 0, "nothing that lives");

    /* A thread's heap. */
    vcm_heap before = heaps.push(heap[0]);
    EXPECT(before == VCM_HEAP_PROCESS, "the process's own heap before");
    void *blocks[] = {malloc(10), calloc(3, 40), aligned_alloc(4096, 8192), realloc(NULL, 5), memalign(64, 1 << 20),
                      strdup("text")};
    for (size_t index = 0; index < sizeof blocks / sizeof *blocks; index++)
        EXPECT(heaps.of(blocks[index]) == heap[0], "block %zu of the pushed heap", index);
    pthread_t other;
    EXPECT(!pthread_create(&other, NULL, unpushed, NULL), "a thread");
    pthread_join(other, NULL);
    heaps.pop(before);
    void *own = malloc(10);
    EXPECT(heaps.of(own) == VCM_HEAP_PROCESS, "the process's own heap again");
    own = heaps.realloc(heap[1], own, 3000);
    EXPECT(own && heaps.of(own) == heap[1], "a block that moved to another heap");
    free(own);

    /* The limit, and an end. */
    struct vcm_heap_options options = {.size = sizeof options, .limit = 4 * MIB};
    vcm_heap small = heaps.new("small", &options);
    int given = 0;
    while (heaps.malloc(small, 1000))
        given++;
    EXPECT(errno == ENOMEM && given > 3000 && stats_of(small).peak <= 4 * MIB, "a limit that holds after %d", given);
    EXPECT(!heaps.destroy(small, VCM_HEAP_FREE) && heaps.destroy(small, VCM_HEAP_FREE) == ENOENT, "one end");
    EXPECT(!heaps.malloc(small, 10) && errno == EINVAL, "no block of a heap that has ended");
    EXPECT(heaps.push(small) == VCM_HEAP_NONE, "nor a thread that uses it");
    EXPECT(!heaps.destroy(heap[0], VCM_HEAP_HAND_OVER), "an end");
    for (size_t index = 0; index < sizeof blocks / sizeof *blocks; index++) {
        EXPECT(heaps.of(blocks[index]) == VCM_HEAP_PROCESS, "block %zu of the process", index);
        free(blocks[index]);
    }
    void *last = heaps.malloc(heap[1], 100);
    EXPECT(!heaps.destroy(heap[1], VCM_HEAP_DRAIN) && !heaps.malloc(heap[1], 1), "a heap that gives no more");
    EXPECT(stats_of(heap[1]).draining, "and waits");
    free(last);
    struct vcm_heap_stats stats = {.size = sizeof stats};
    EXPECT(heaps.stats(heap[1], &stats) == ENOENT, "and goes");
    return 0;
}
