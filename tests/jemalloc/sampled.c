// A block that the profile samples is larger than others of its class. MALLOCX_ZERO clears all of it: a program that lets it grow later relies
// on zeros behind what it first requested.
#include "expect.h"

static void is_clear(const unsigned char *block, size_t from, const char *what) {
    size_t usable = sallocx((void *)block, 0);
    for (size_t index = from; index < usable; index++) {
        EXPECT(block[index] == 0, "%s: byte %zu of %zu is %d", what, index, usable, block[index]);
    }
}

static void with(int flags) {
    for (size_t round = 0; round < 3000; round++) {
        size_t bytes = 1 + round * 37 % 60000;
        void *dirty = mallocx(bytes, flags);
        memset(dirty, 0xff, sallocx(dirty, 0));
        dallocx(dirty, flags);
        unsigned char *block = mallocx(bytes, flags | MALLOCX_ZERO);
        EXPECT(block, "%zu bytes", bytes);
        is_clear(block, 0, "mallocx");
        size_t before = sallocx(block, 0);
        memset(block, 0xff, bytes);
        block = rallocx(block, bytes * 2, flags | MALLOCX_ZERO);
        EXPECT(block, "%zu bytes", bytes * 2);
        is_clear(block, before < bytes * 2 ? bytes : bytes * 2, "rallocx");
        dallocx(block, flags);
    }
}

/* A sample has as many bytes when it is freed as when it was made, also where the profile has stopped since. */
static void counts_are_even(void) {
    enum { BLOCKS = 20000 };
    static void *blocks[BLOCKS];
    uint64_t made = GET(uint64_t, "thread.allocated"), freed = GET(uint64_t, "thread.deallocated");
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(1003);
    EXPECT(SET(bool, false, "prof.active") == 0, "the profile stops");
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    EXPECT(SET(bool, true, "prof.active") == 0, "the profile goes on");
    made = GET(uint64_t, "thread.allocated") - made;
    freed = GET(uint64_t, "thread.deallocated") - freed;
    EXPECT(made == freed, "%ju bytes were allocated, %ju deallocated", (uintmax_t)made, (uintmax_t)freed);
}

int main(void) {
    EXPECT(GET(bool, "opt.prof"), "prof:true is set");
    counts_are_even();
    with(0);
    with(MALLOCX_ALIGN(256));
    unsigned arena = GET(unsigned, "arenas.create");
    with(MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
    return 0;
}
