// on_limit frees all blocks of its heap: the request that met the limit is served, whatever its size.
// on: preload hardened
#include "check.h"
#include "../../include/vcmalloc.h"

static void *kept[20000];
static int count, calls;

static void free_all(vcm_heap heap, size_t bytes, void *argument) {
    (void)heap, (void)bytes, (void)argument;
    calls++;
    while (count > 0)
        free(kept[--count]);
}

int main(void) {
    vcm_heap (*make)(const char *, const struct vcm_heap_options *) = function("vcm_heap_new");
    void *(*allocate)(vcm_heap, size_t) = function("vcm_heap_malloc");
    int (*end)(vcm_heap, int) = function("vcm_heap_destroy");
    for (size_t bytes = 1000; bytes < 3 * MIB; bytes *= 2) {
        struct vcm_heap_options options = {.size = sizeof options, .limit = 4 * MIB, .on_limit = free_all};
        vcm_heap heap = make("limited", &options);
        calls = 0;
        for (size_t i = 0; i < 20 * MIB / bytes; i++) {
            void *block = allocate(heap, bytes);
            EXPECT(block != NULL, "%zu bytes at number %zu, after %d calls", bytes, i, calls);
            kept[count++] = block;
        }
        EXPECT(calls > 0 || bytes < 8000, "a limit that is met");
        while (count > 0)
            free(kept[--count]);
        EXPECT(end(heap, VCM_HEAP_FREE) == 0, "an end");
    }
    return 0;
}
