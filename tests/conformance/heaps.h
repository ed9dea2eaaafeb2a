/* The functions for heaps of vcmalloc.h, in a preloaded library or a linked one. */
#ifndef HEAPS_H
#define HEAPS_H

#include "../../include/vcmalloc.h"
#include "check.h"
#include <stdatomic.h>

#pragma weak vcm_heap_new
#pragma weak vcm_heap_malloc
#pragma weak vcm_heap_calloc
#pragma weak vcm_heap_aligned
#pragma weak vcm_heap_realloc
#pragma weak vcm_heap_of
#pragma weak vcm_heap_push
#pragma weak vcm_heap_pop
#pragma weak vcm_heap_destroy
#pragma weak vcm_heap_reset
#pragma weak vcm_heap_set_limit
#pragma weak vcm_heap_set_release_delay
#pragma weak vcm_heap_release
#pragma weak vcm_heap_stats
#pragma weak vcm_heap_each
#pragma weak vcm_heap_each_block

#define HEAP_FUNCTIONS(DO) \
    DO(new) DO(malloc) DO(calloc) DO(aligned) DO(realloc) DO(of) DO(push) DO(pop) DO(destroy) DO(reset) \
    DO(set_limit) DO(set_release_delay) DO(release) DO(stats) DO(each) DO(each_block)

static struct {
#define POINTER(name) __typeof__(vcm_heap_##name) *name;
    HEAP_FUNCTIONS(POINTER)
} heaps;

#define FIND(name)                                                                                   \
    do {                                                                                             \
        *(void **)&heaps.name = vcm_heap_##name ? (void *)vcm_heap_##name : dlsym(RTLD_DEFAULT, "vcm_heap_" #name); \
        EXPECT(heaps.name, "vcm_heap_" #name);                                                       \
    } while (0);

static void find_heaps(void) {
    HEAP_FUNCTIONS(FIND)
}

__attribute__((unused)) static struct vcm_heap_stats stats_of(vcm_heap heap) {
    struct vcm_heap_stats stats = {.size = sizeof stats};
    EXPECT(!heaps.stats(heap, &stats), "figures of a heap");
    return stats;
}

/* A heap below another one, or VCM_HEAP_NONE, with a limit, or 0. */
__attribute__((unused)) static vcm_heap heap_below(vcm_heap parent, size_t limit) {
    struct vcm_heap_options options = {.size = sizeof options, .parent = parent, .limit = limit};
    return heaps.new("tenant", &options);
}

#endif
