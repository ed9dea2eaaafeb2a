// Has three heaps of tenants: `orders` with blocks of two call sites, by its function and by malloc in a scope; `queries`, which is
// at its limit; `late`, which drains. Waits until its standard input ends; each byte of it ends a heap: orders, then late.
#include "../conformance/heaps.h"
#include <pthread.h>

enum { BLOCKS = 20000 };
static void *of_late[BLOCKS];

__attribute__((noinline)) static void place_orders(vcm_heap heap) {
    for (int i = 0; i < BLOCKS; i++)
        memset(heaps.malloc(heap, 300), 1, 300);
}

__attribute__((noinline)) static void index_orders(vcm_heap heap) {
    vcm_heap before = heaps.push(heap);
    for (int i = 0; i < BLOCKS; i++) {
        char *volatile block = malloc(100);
        memset(block, 1, 100);
    }
    heaps.pop(before);
}

__attribute__((noinline)) static void hold_late(vcm_heap heap) {
    for (int i = 0; i < BLOCKS; i++)
        of_late[i] = memset(heaps.malloc(heap, 200), 1, 200);
}

__attribute__((noinline)) static void hold_for_the_process(void) {
    for (int i = 0; i < BLOCKS; i++) {
        char *volatile block = malloc(400);
        memset(block, 1, 400);
    }
}

static void *sleeps(void *argument) {
    pause();
    return argument;
}

int main(void) {
    find_heaps();
    pthread_t thread;
    pthread_create(&thread, NULL, sleeps, NULL);
    vcm_heap orders = heaps.new("orders", NULL), late = heaps.new("late", NULL);
    struct vcm_heap_options options = {.size = sizeof options, .limit = 1 << 20};
    vcm_heap queries = heaps.new("queries", &options);
    int refused = 0;
    for (int i = 0; i < 40; i++)
        refused += heaps.malloc(queries, 100000) == NULL;
    place_orders(orders);
    index_orders(orders);
    hold_late(late);
    heaps.destroy(late, VCM_HEAP_DRAIN);
    hold_for_the_process();
    struct vcm_heap_stats stats = {.size = sizeof stats};
    heaps.stats(orders, &stats);
    printf("%d %llu %llu\n", refused, (unsigned long long)stats.live, (unsigned long long)stats.bytes);
    fflush(stdout);
    char byte;
    if (read(0, &byte, 1) > 0)
        heaps.destroy(orders, VCM_HEAP_FREE);
    if (read(0, &byte, 1) > 0)
        for (int i = 0; i < BLOCKS; i++)
            free(of_late[i]);
    while (read(0, &byte, 1) > 0) {
    }
}
