/* The functions for heaps of vcmalloc.h, in a preloaded library or a linked one. */
#ifndef HEAPS_H
#define HEAPS_H

#include "../../include/vcmalloc.h"
#include "check.h"
#include <stdatomic.h>

static struct {
    __typeof__(vcm_heap_new) *new;
    __typeof__(vcm_heap_malloc) *malloc;
    __typeof__(vcm_heap_realloc) *realloc;
    __typeof__(vcm_heap_of) *of;
    __typeof__(vcm_heap_push) *push;
    __typeof__(vcm_heap_pop) *pop;
    __typeof__(vcm_heap_destroy) *destroy;
    __typeof__(vcm_heap_stats) *stats;
} heaps;

#pragma weak vcm_heap_new
#pragma weak vcm_heap_malloc
#pragma weak vcm_heap_realloc
#pragma weak vcm_heap_of
#pragma weak vcm_heap_push
#pragma weak vcm_heap_pop
#pragma weak vcm_heap_destroy
#pragma weak vcm_heap_stats

#define FIND(name)                                                                                   \
    do {                                                                                             \
        *(void **)&heaps.name = vcm_heap_##name ? (void *)vcm_heap_##name : dlsym(RTLD_DEFAULT, "vcm_heap_" #name); \
        EXPECT(heaps.name, "vcm_heap_" #name);                                                       \
    } while (0)

static void find_heaps(void) {
    FIND(new);
    FIND(malloc);
    FIND(realloc);
    FIND(of);
    FIND(push);
    FIND(pop);
    FIND(destroy);
    FIND(stats);
}

#endif
