// thread.allocated and thread.deallocated: exact, in bytes as malloc_usable_size tells them, by every function and in every thread.
#include "expect.h"

struct counts {
    uint64_t taken, freed;
};

static struct counts now(void) {
    return (struct counts){GET(uint64_t, "thread.allocated"), GET(uint64_t, "thread.deallocated")};
}

static void took(struct counts before, size_t taken, size_t freed, const char *what) {
    struct counts after = now();
    EXPECT(after.taken - before.taken == taken, "%s: %zu, not %zu", what, (size_t)(after.taken - before.taken), taken);
    EXPECT(after.freed - before.freed == freed, "%s: %zu, not %zu", what, (size_t)(after.freed - before.freed), freed);
}

#define ONE(what, call)                                                                            \
    do {                                                                                           \
        struct counts before = now();                                                              \
        void *block = (call);                                                                      \
        size_t bytes = malloc_usable_size(block);                                                  \
        took(before, bytes, 0, what);                                                              \
        before = now();                                                                            \
        free(block);                                                                               \
        took(before, 0, bytes, what);                                                              \
    } while (0)


static void resizing(size_t bytes) {
    void *block = malloc(bytes);
    size_t usable = malloc_usable_size(block);
    struct counts before = now();
    block = realloc(block, bytes * 3);
    took(before, malloc_usable_size(block), usable, "realloc that grows");
    usable = malloc_usable_size(block);
    before = now();
    sdallocx(block, bytes * 3, 0);
    took(before, 0, usable, "sdallocx");
}

static void *everything(void *unused) {
    (void)unused;
    uint64_t *taken = GET(uint64_t *, "thread.allocatedp"), *freed = GET(uint64_t *, "thread.deallocatedp");
    static const size_t sizes[] = {1, 16, 17, 100, 1000, 4096, 5000, 30000, 200000, 300000, 3000000};
    for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index++) {
        resizing(sizes[index]);
        void *aligned;
        ONE("malloc", malloc(sizes[index]));
        ONE("calloc", calloc(3, sizes[index]));
        ONE("realloc", realloc(NULL, sizes[index]));
        ONE("aligned_alloc", aligned_alloc(64, sizes[index]));
        ONE("posix_memalign", posix_memalign(&aligned, 256, sizes[index]) ? NULL : aligned);
        ONE("mallocx", mallocx(sizes[index], 0));
        ONE("mallocx with zeros", mallocx(sizes[index], MALLOCX_ZERO));
        ONE("mallocx at 8192", mallocx(sizes[index], MALLOCX_ALIGN(8192)));
    }
    ONE("malloc of nothing", malloc(0));
    // What the pointers lead to changes with each call.
    uint64_t before = *taken;
    void *many[1000];
    for (int index = 0; index < 1000; index++) {
        many[index] = malloc(100);
    }
    // A block that ours samples has a size of its own.
    uint64_t bytes = 0;
    for (int index = 0; index < 1000; index++) {
        bytes += malloc_usable_size(many[index]);
    }
    EXPECT(*taken - before == bytes, "%zu", (size_t)(*taken - before));
    before = *freed;
    for (int index = 0; index < 1000; index++) {
        free(many[index]);
    }
    EXPECT(*freed - before == bytes, "%zu", (size_t)(*freed - before));
    free(NULL);
    EXPECT(*freed - before == bytes, "nothing is freed");
    // Without a system of lookups they stay where they are.
    EXPECT(GET(uint64_t *, "thread.allocatedp") == taken, "another place");
    return NULL;
}

// A block that was freed a moment ago may serve a request that is a little shorter: it is counted once, as it is then.
static void after_longer_ones(void) {
    for (int flags = 0; flags <= MALLOCX_ZERO; flags += MALLOCX_ZERO) {
        for (size_t bytes = 300000; bytes < 1200000; bytes += 16384) {
            free(malloc(bytes + bytes / 9));
            uint64_t before = GET(uint64_t, "thread.allocated");
            void *block = mallocx(bytes, flags);
            uint64_t taken = GET(uint64_t, "thread.allocated") - before;
            EXPECT(taken == sallocx(block, 0), "%zu bytes of %zu", (size_t)taken, bytes);
            dallocx(block, 0);
        }
    }
}

static void *of_others(void *block) {
    uint64_t before = GET(uint64_t, "thread.deallocated");
    size_t usable = malloc_usable_size(block);
    free(block);
    EXPECT(GET(uint64_t, "thread.deallocated") - before == usable, "who frees it counts it");
    return NULL;
}

// In an arena of its thread with a cache, as everywhere.
static void *of_nothing(void *arena) {
    EXPECT(SET(unsigned, *(unsigned *)arena, "thread.arena") == 0, "chosen");
    for (int round = 0; round < 5000; round++) {
        free(malloc(200));
    }
    uint64_t taken = GET(uint64_t, "thread.allocated"), freed = GET(uint64_t, "thread.deallocated");
    for (int round = 0; round < 5000; round++) {
        free(malloc(0));
        free(calloc(0, 7));
    }
    taken = GET(uint64_t, "thread.allocated") - taken;
    freed = GET(uint64_t, "thread.deallocated") - freed;
    EXPECT(taken == freed && taken > 0, "%zu taken, %zu freed", (size_t)taken, (size_t)freed);
    return NULL;
}

static void peak(void) {
    EXPECT(DO("thread.peak.reset") == 0, "forgotten");
    void *large = malloc(10 << 20);
    uint64_t high = GET(uint64_t, "thread.peak.read");
    free(large);
    EXPECT(high >= 10 << 20 && high < 11 << 20, "%zu", (size_t)high);
    EXPECT(GET(uint64_t, "thread.peak.read") >= high, "it stays");
    EXPECT(DO("thread.peak.reset") == 0 && GET(uint64_t, "thread.peak.read") < 1 << 20, "until it is forgotten");
}

int main(void) {
    everything(NULL);
    after_longer_ones();
    in_thread(everything, NULL);
    in_thread(of_others, malloc(5000));
    unsigned arena = GET(unsigned, "arenas.create");
    in_thread(of_nothing, &arena);
    peak();
    return 0;
}
