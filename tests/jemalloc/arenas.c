// Arenas: made, used by flags and by threads, reset, destroyed, told apart; their times of decay and figures.
#include "expect.h"

static unsigned make(void) { return GET(unsigned, "arenas.create"); }

static unsigned of(void *block) {
    unsigned arena = 0;
    size_t length = sizeof arena;
    EXPECT(mallctl("arenas.lookup", &arena, &length, &block, sizeof block) == 0, "a block's arena");
    return arena;
}

static void blocks(void) {
    unsigned arena = make(), other = make();
    EXPECT(arena != other && arena > 0 && GET(unsigned, "arenas.narenas") > other, "%u, %u", arena, other);
    next_epoch();
    EXPECT(GET(bool, "arena.%u.initialized", arena), "%u", arena);
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    static const size_t sizes[] = {1, 100, 5000, 100000, 400000, 5000000};
    void *held[6];
    for (int index = 0; index < 6; index++) {
        char *block = mallocx(sizes[index], flags | MALLOCX_ZERO);
        EXPECT(block && sallocx(block, 0) >= sizes[index] && of(block) == arena, "%zu bytes", sizes[index]);
        for (size_t byte = 0; byte < sizes[index]; byte++) {
            EXPECT(block[byte] == 0, "byte %zu", byte);
        }
        memset(block, 1, sizes[index]);
        char *aligned = mallocx(sizes[index], flags | MALLOCX_ALIGN(4096));
        EXPECT(aligned && ((uintptr_t)aligned & 4095) == 0 && of(aligned) == arena, "aligned");
        block = rallocx(block, sizes[index] * 2, flags);
        EXPECT(block && block[sizes[index] - 1] == 1 && of(block) == arena, "it stays in its arena");
        block = rallocx(block, sizes[index], MALLOCX_ARENA(other) | MALLOCX_TCACHE_NONE);
        EXPECT(block && block[sizes[index] - 1] == 1, "its contents go along");
        held[index] = block;
        dallocx(aligned, MALLOCX_TCACHE_NONE);
    }
    next_epoch();
    EXPECT(GET(size_t, "stats.arenas.%u.small.allocated", arena) == 0 || !is_ours(), "all of it went");
    for (int index = 0; index < 6; index++) {
        sdallocx(held[index], sizes[index], MALLOCX_TCACHE_NONE);
    }
    EXPECT(DO("arena.%u.destroy", arena) == 0 && DO("arena.%u.destroy", other) == 0, "both end");
    EXPECT(!GET(bool, "arena.%u.initialized", arena), "it is no more");
    EXPECT(make() == arena || make() == arena, "the number is used again");
}

static void reset(void) {
    unsigned arena = make();
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    for (int index = 0; index < 10000; index++) {
        EXPECT(mallocx(index % 3000 + 1, flags), "block %d", index);
    }
    next_epoch();
    size_t small = GET(size_t, "stats.arenas.%u.small.allocated", arena);
    EXPECT(small > 10000 * 1000, "%zu", small);
    EXPECT(GET(size_t, "stats.allocated") >= small, "the process has what its arenas have");
    EXPECT(DO("arena.%u.reset", arena) == 0, "all its blocks are free");
    next_epoch();
    EXPECT(GET(size_t, "stats.arenas.%u.small.allocated", arena) == 0, "nothing is left");
    void *block = mallocx(100, flags);
    EXPECT(block && of(block) == arena, "it gives blocks again");
    EXPECT(DO("arena.%u.destroy", arena) == 0, "it ends with what lives");
    // No automatic arena is reset or ends, nor what there is not.
    EXPECT(DO("arena.0.reset") == EFAULT && DO("arena.0.destroy") == EFAULT, "arena 0 stays");
    EXPECT(DO("arena.%u.destroy", arena) == EFAULT, "it has ended already");
}

static void *chooses(void *argument) {
    unsigned arena = *(unsigned *)argument, before = 77;
    size_t length = sizeof before;
    EXPECT(mallctl("thread.arena", &before, &length, &arena, sizeof arena) == 0 && before != arena, "%u", before);
    EXPECT(GET(unsigned, "thread.arena") == arena, "%u", GET(unsigned, "thread.arena"));
    void *kept[100];
    for (int index = 0; index < 100; index++) {
        kept[index] = malloc(index * 500 + 1);
        EXPECT(of(kept[index]) == arena, "malloc takes from the thread's arena");
    }
    void *own = mallocx(100, MALLOCX_ARENA(0) | MALLOCX_TCACHE_NONE);
    EXPECT(of(own) == 0, "flags go before it");
    free(own);
    next_epoch();
    EXPECT(GET(unsigned, "stats.arenas.%u.nthreads", arena) == 1, "%u", GET(unsigned, "stats.arenas.%u.nthreads", arena));
    EXPECT(DO("arena.%u.destroy", arena) == EFAULT, "an arena with threads stays");
    for (int index = 0; index < 100; index++) {
        free(kept[index]);
    }
    return NULL;
}

static void threads(void) {
    unsigned arena = make();
    in_thread(chooses, &arena);
    next_epoch();
    EXPECT(GET(unsigned, "stats.arenas.%u.nthreads", arena) == 0, "the thread has ended");
    EXPECT(GET(unsigned, "stats.arenas.0.nthreads") >= 1, "this one is served");
    unsigned none = 3000;
    EXPECT(mallctl("thread.arena", NULL, NULL, &none, sizeof none) == EFAULT, "there is no such arena");
    EXPECT(!is_ours() || mallocx(10, MALLOCX_ARENA(3000)) == NULL, "nor a block of it");
    EXPECT(SET(unsigned, 0, "thread.arena") == 0, "back");
    EXPECT(DO("arena.%u.destroy", arena) == 0, "nobody is left");
}

static void decay(void) {
    unsigned arena = make();
    EXPECT(SET(ssize_t, 250, "arena.%u.dirty_decay_ms", arena) == 0, "a time");
    EXPECT(GET(ssize_t, "arena.%u.dirty_decay_ms", arena) == 250, "is told again");
    EXPECT(SET(ssize_t, -1, "arena.%u.muzzy_decay_ms", arena) == 0, "for ever");
    EXPECT(GET(ssize_t, "arena.%u.muzzy_decay_ms", arena) == -1, "is told again");
    EXPECT(SET(ssize_t, -2, "arena.%u.dirty_decay_ms", arena) == EFAULT, "before for ever there is nothing");
    const ssize_t longest = 18446744072000;
    EXPECT(SET(ssize_t, longest, "arena.%u.dirty_decay_ms", arena) == 0, "the longest time");
    EXPECT(GET(ssize_t, "arena.%u.dirty_decay_ms", arena) == longest, "is told again");
    EXPECT(SET(ssize_t, longest + 1, "arena.%u.dirty_decay_ms", arena) == EFAULT, "behind it there is nothing");
    EXPECT(SET(ssize_t, longest + 1, "arenas.muzzy_decay_ms") == EFAULT, "nor for new ones");
    EXPECT(SET(ssize_t, 70, "arenas.dirty_decay_ms") == 0 && GET(ssize_t, "arenas.dirty_decay_ms") == 70, "of new ones");
    unsigned later = make();
    EXPECT(GET(ssize_t, "arena.%u.dirty_decay_ms", later) == 70, "%zd", GET(ssize_t, "arena.%u.dirty_decay_ms", later));
    EXPECT(SET(ssize_t, 0, "arena.0.dirty_decay_ms") == 0 && GET(ssize_t, "arena.0.dirty_decay_ms") == 0, "at once");
    EXPECT(SET(ssize_t, 100, "arena.3000.dirty_decay_ms") == ENOENT, "there is no such arena");
    EXPECT(DO("arena.%u.destroy", arena) == 0 && DO("arena.%u.destroy", later) == 0, "both end");
    EXPECT(SET(ssize_t, 100, "arena.%u.dirty_decay_ms", later) == EFAULT, "it has ended");
}

static void purge(void) {
    const size_t bytes = 64 << 20;
    char *large = malloc(bytes);
    memset(large, 1, bytes);
    next_epoch();
    size_t before = GET(size_t, "stats.resident");
    free(large);
    // Both ways to all arenas.
    EXPECT(DO("arena.%u.purge", GET(unsigned, "arenas.narenas")) == 0 && DO("arena.4096.purge") == 0, "given back");
    next_epoch();
    size_t after = GET(size_t, "stats.resident");
    EXPECT(before >= bytes && after + bytes / 2 < before, "%zu, then %zu", before, after);
}

static void figures(void) {
    void *kept[3000];
    for (int index = 0; index < 3000; index++) {
        kept[index] = calloc(1, index * 7 + 1);
    }
    next_epoch();
    size_t allocated = GET(size_t, "stats.allocated"), active = GET(size_t, "stats.active");
    size_t resident = GET(size_t, "stats.resident"), mapped = GET(size_t, "stats.mapped");
    EXPECT(allocated > 3000 * 3 * 3500 && allocated <= active, "%zu, %zu", allocated, active);
    EXPECT(active <= mapped && active <= resident && active % 4096 == 0, "%zu, %zu, %zu", active, resident, mapped);
    // The picture stays until the next epoch.
    void *large = malloc(20 << 20);
    EXPECT(GET(size_t, "stats.allocated") == allocated, "%zu", GET(size_t, "stats.allocated"));
    uint64_t epoch = GET(uint64_t, "epoch");
    next_epoch();
    EXPECT(GET(uint64_t, "epoch") == epoch + 1, "the next");
    EXPECT(GET(size_t, "stats.allocated") >= allocated + (20 << 20), "%zu", GET(size_t, "stats.allocated"));
    size_t bins = 0;
    for (unsigned bin = 0; bin < GET(unsigned, "arenas.nbins"); bin++) {
        bins += GET(size_t, "arenas.bin.%u.size", bin) * GET(size_t, "stats.arenas.4096.bins.%u.curregs", bin);
    }
    EXPECT(bins == GET(size_t, "stats.arenas.4096.small.allocated"), "bins are what is small: %zu", bins);
    // As Redis asks it: no bin has more blocks than its spans have room for, in each arena and in all.
    unsigned made = make();
    void *small = mallocx(3000, MALLOCX_ARENA(made) | MALLOCX_TCACHE_NONE);
    size_t spans = 0;
    next_epoch();
    for (unsigned bin = 0; bin < GET(unsigned, "arenas.nbins"); bin++) {
        size_t room = GET(uint32_t, "arenas.bin.%u.nregs", bin);
        for (int of = 0; of < 2; of++) {
            unsigned arena = of ? 4096 : made;
            size_t slabs = GET(size_t, "stats.arenas.%u.bins.%u.curslabs", arena, bin);
            EXPECT(slabs * room >= GET(size_t, "stats.arenas.%u.bins.%u.curregs", arena, bin), "%u", bin);
            spans += of ? 0 : slabs;
        }
    }
    EXPECT(spans == 1, "%zu", spans);
    dallocx(small, 0);
    free(large);
    for (int index = 0; index < 3000; index++) {
        free(kept[index]);
    }
}

static void hooks(void) {
    unsigned arena = make();
    extent_hooks_t *before = GET(extent_hooks_t *, "arena.%u.extent_hooks", arena);
    EXPECT(before != NULL, "hooks that may be read");
    EXPECT(SET(extent_hooks_t *, before, "arena.%u.extent_hooks", arena) == 0, "and set to what they are");
    const char *dss = "nonsense";
    EXPECT(mallctl("arena.0.dss", NULL, NULL, &dss, sizeof dss) == EINVAL, "a word that is none");
    EXPECT(DO("arena.%u.destroy", arena) == 0, "it ends");
}

int main(void) {
    blocks();
    reset();
    threads();
    decay();
    purge();
    figures();
    hooks();
    return 0;
}
