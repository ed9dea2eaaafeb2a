// Functions for heaps refuse names, sizes, alignments, options and modes that mean nothing, and change nothing then; scopes that
// are left out of order, or were never entered, harm nothing.
// on: preload locked registered hardened static
#include "heaps.h"

static const vcm_heap NO_HEAPS[] = {0, 2, 77, UINT32_MAX, UINT64_MAX, (vcm_heap)1 << 32, ((vcm_heap)1 << 63) | 1};

static void no_heap(vcm_heap heap) {
    struct vcm_heap_stats stats = {.size = sizeof stats};
    errno = 0;
    EXPECT(!heaps.malloc(heap, 1) && errno == EINVAL, "no block of heap %llx", (unsigned long long)heap);
    EXPECT(!heaps.calloc(heap, 1, 1) && !heaps.aligned(heap, 64, 1) && !heaps.realloc(heap, NULL, 1), "nor another");
    EXPECT(heaps.push(heap) == VCM_HEAP_NONE, "no scope of it");
    for (int mode = 0; mode < 3; mode++)
        EXPECT(heaps.destroy(heap, mode) == ENOENT, "no end");
    EXPECT(heaps.reset(heap) == ENOENT && heaps.set_limit(heap, 1) == ENOENT, "no reset, no limit");
    EXPECT(heaps.set_release_delay(heap, 1) == ENOENT && heaps.release(heap) == 0, "nothing to release");
    EXPECT(heaps.stats(heap, &stats) == ENOENT, "no figures");
    EXPECT(heap == VCM_HEAP_NONE || heap_below(heap, 0) == VCM_HEAP_NONE, "no heap below it");
}

static int seen;

static void count(vcm_heap heap, void *argument) {
    (void)argument;
    seen += heap != VCM_HEAP_NONE;
}

static void count_block(void *block, size_t bytes, void *argument) {
    (void)argument;
    seen += block && bytes;
}

static void names(void) {
    static const char *const ODD[] = {"", "\x1b[2J\xff\n\t", "%s%n%s", "0123456789012345678901234567890123456789012345678901234567890"};
    for (size_t index = 0; index < sizeof ODD / sizeof *ODD; index++) {
        vcm_heap heap = heaps.new(ODD[index], NULL);
        struct vcm_heap_stats stats = stats_of(heap);
        size_t length = strnlen(stats.name, sizeof stats.name);
        EXPECT(length < sizeof stats.name && !memcmp(stats.name, ODD[index], length), "name %zu as it was given", index);
        EXPECT(length == strlen(ODD[index]) || length == sizeof stats.name - 1, "cut only where it is too long");
        EXPECT(!heaps.destroy(heap, VCM_HEAP_FREE), "an end");
    }
    vcm_heap nameless = heaps.new(NULL, NULL);
    EXPECT(stats_of(nameless).name[0] == 0 && !heaps.destroy(nameless, VCM_HEAP_DRAIN), "a heap without a name");
}

static void options_and_figures(void) {
    struct vcm_heap_options options = {.size = 7};
    errno = 0;
    EXPECT(heaps.new("few", &options) == VCM_HEAP_NONE && errno == EINVAL, "options shorter than their size");
    options.size = sizeof(size_t);
    options.limit = 1;
    vcm_heap old = heaps.new("old", &options);
    void *block = heaps.malloc(old, 100000);
    EXPECT(block && stats_of(old).limit == 0, "options that the caller does not know");
    /* A later version's, with what this library does not know. */
    struct {
        struct vcm_heap_options known;
        char more[200];
    } later = {.known = {.size = sizeof later}};
    vcm_heap new = heaps.new("later", &later.known);
    EXPECT(new != VCM_HEAP_NONE && !heaps.destroy(new, VCM_HEAP_FREE), "options of a later version");
    struct vcm_heap_stats stats = {.size = 7};
    EXPECT(heaps.stats(old, &stats) == EINVAL && heaps.stats(old, NULL) == EINVAL, "figures without a place");
    memset(&stats, 0x55, sizeof stats);
    stats.size = offsetof(struct vcm_heap_stats, cached);
    EXPECT(!heaps.stats(old, &stats) && stats.live_blocks == 1, "the figures that fit");
    EXPECT(stats.cached == 0x5555555555555555 && stats.name[39] == 0x55, "and none behind them");
    EXPECT(heaps.destroy(old, 99) == EINVAL && heaps.destroy(old, -1) == EINVAL, "modes that there are");
    EXPECT(heaps.each_block(old, NULL, NULL) == EINVAL && !heaps.each_block(old, count_block, NULL), "blocks");
    heaps.each(NULL, NULL);
    heaps.each(count, NULL);
    EXPECT(seen == 2, "one block and one heap, not %d", seen);
    EXPECT(!heaps.destroy(old, VCM_HEAP_FREE), "an end");
}

static void sizes(vcm_heap heap) {
    static const size_t LARGE[] = {SIZE_MAX, SIZE_MAX - 16383, (size_t)PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, (size_t)1 << 62, (size_t)1 << 47};
    unsigned char *kept = heaps.malloc(heap, 1000);
    memset(kept, 9, 1000);
    for (size_t index = 0; index < sizeof LARGE / sizeof *LARGE; index++) {
        volatile size_t bytes = LARGE[index];
        EXPECT_NO_MEMORY(heaps.malloc(heap, bytes));
        EXPECT_NO_MEMORY(heaps.aligned(heap, 4096, bytes));
        EXPECT_NO_MEMORY(heaps.calloc(heap, bytes, 2));
        EXPECT_NO_MEMORY(heaps.calloc(heap, 1, bytes));
        EXPECT_NO_MEMORY(heaps.realloc(heap, kept, bytes));
        EXPECT_NO_MEMORY(heaps.realloc(VCM_HEAP_PROCESS, kept, bytes));
        EXPECT(kept[0] == 9 && kept[999] == 9 && heaps.of(kept) == heap, "a block that stays");
    }
    for (int shift = 0; shift < 64; shift++) {
        volatile size_t align = (size_t)1 << shift;
        errno = 0;
        void *block = heaps.aligned(heap, align, 10);
        EXPECT(block ? is_aligned(block, align) : errno == ENOMEM, "an alignment of 2^%d", shift);
        EXPECT(block || shift > 30, "an alignment of 2^%d", shift);
        free(block);
    }
    for (size_t align = 0; align < 10; align += 3) {
        errno = 0;
        EXPECT(!heaps.aligned(heap, align, 10) && errno == EINVAL, "no alignment of %zu", align);
    }
    EXPECT(heaps.realloc(heap, kept, 0) != NULL, "a block of no bytes");
    void *none[] = {heaps.malloc(heap, 0), heaps.calloc(heap, 0, SIZE_MAX), heaps.aligned(heap, 64, 0)};
    EXPECT(none[0] && none[1] && none[2] && none[0] != none[1], "blocks of no bytes");
    for (int index = 0; index < 3; index++)
        free(none[index]);
    int here;
    EXPECT(heaps.of(NULL) == VCM_HEAP_NONE && heaps.of(&here) == VCM_HEAP_NONE, "addresses that are none of ours");
    EXPECT(heaps.of((void *)16) == VCM_HEAP_NONE && heaps.of((void *)UINTPTR_MAX) == VCM_HEAP_NONE, "nor these");
}

static void limits(void) {
    static const size_t LIMITS[] = {1, 16383, 64 * KIB, SIZE_MAX - 1, SIZE_MAX};
    for (size_t index = 0; index < sizeof LIMITS / sizeof *LIMITS; index++) {
        vcm_heap heap = heap_below(VCM_HEAP_NONE, LIMITS[index]);
        void *block = heaps.malloc(heap, 100);
        EXPECT(!block == (LIMITS[index] < 64 * KIB), "what a limit of %zu admits", LIMITS[index]);
        EXPECT(!heaps.set_limit(heap, 0), "no limit");
        void *more = heaps.malloc(heap, 3 * MIB);
        EXPECT(more && !heaps.set_limit(heap, 1) && !heaps.malloc(heap, 3 * MIB), "what it has stays");
        EXPECT(stats_of(heap).bytes >= 3 * MIB && stats_of(heap).refused > 0, "figures");
        free(more);
        EXPECT(!heaps.set_release_delay(heap, 0) && !heaps.set_release_delay(heap, UINT64_MAX - 1), "delays");
        EXPECT(!heaps.destroy(heap, VCM_HEAP_FREE), "an end");
    }
}

static vcm_heap heap_of_malloc(void) {
    void *block = malloc(100);
    vcm_heap heap = heaps.of(block);
    free(block);
    return heap;
}

static void scopes(vcm_heap outer, vcm_heap inner) {
    vcm_heap gone = heaps.new("gone", NULL);
    EXPECT(!heaps.destroy(gone, VCM_HEAP_FREE), "an end");
    heaps.pop(gone);
    heaps.pop(UINT64_MAX);
    EXPECT(heap_of_malloc() == VCM_HEAP_PROCESS, "pops without a push");
    vcm_heap first = heaps.push(outer);
    /* A scope of a heap that is gone is none, and its end ends none. */
    vcm_heap second = heaps.push(gone);
    EXPECT(second == VCM_HEAP_NONE && heap_of_malloc() == outer, "no scope");
    heaps.pop(second);
    EXPECT(heap_of_malloc() == outer, "the scope around it goes on");
    second = heaps.push(inner);
    heaps.pop(first);
    EXPECT(heap_of_malloc() == VCM_HEAP_PROCESS, "out of order");
    heaps.pop(second);
    EXPECT(heap_of_malloc() == outer, "as it says");
    EXPECT(heaps.push(VCM_HEAP_PROCESS) == outer && heap_of_malloc() == VCM_HEAP_PROCESS, "the process's own on top");
    for (int times = 0; times < 3; times++)
        heaps.pop(first);
    EXPECT(heap_of_malloc() == VCM_HEAP_PROCESS, "once would do");
}

int main(void) {
    find_heaps();
    for (size_t index = 0; index < sizeof NO_HEAPS / sizeof *NO_HEAPS; index++)
        no_heap(NO_HEAPS[index]);
    EXPECT(heaps.destroy(VCM_HEAP_PROCESS, VCM_HEAP_FREE) == ENOENT && heaps.reset(VCM_HEAP_PROCESS) == ENOENT, "the process's own");
    names();
    options_and_figures();
    vcm_heap heap = heaps.new("one", NULL), other = heaps.new("other", NULL);
    for (size_t index = 0; index < sizeof NO_HEAPS / sizeof *NO_HEAPS; index++)
        no_heap(NO_HEAPS[index]);
    sizes(heap);
    limits();
    scopes(heap, other);
    EXPECT(!heaps.destroy(heap, VCM_HEAP_FREE) && !heaps.destroy(other, VCM_HEAP_FREE), "ends");
    return 0;
}
