// mallinfo2 and mallinfo count the bytes that the program holds in this heap: they grow by what is allocated,
// small and large, and shrink by what is freed.
// on: glibc preload locked hardened static
#include "check.h"

enum { COUNT = 4000, BYTES = 5000 };

static size_t in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void expect_about(size_t measured, size_t expected, const char *what) {
    EXPECT(measured >= expected - expected / 50 && measured <= expected + expected / 4,
           "%s: about %zu bytes, not %zu", what, expected, measured);
}

int main(void) {
    static void *block[COUNT];
    size_t before = in_use();
    for (int i = 0; i < COUNT; i++)
        block[i] = malloc(BYTES);
    expect_about(in_use() - before, (size_t)COUNT * BYTES, "small blocks");

    struct mallinfo2 wide = mallinfo2();
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo narrow = mallinfo();
    expect_about((size_t)narrow.uordblks + narrow.hblkhd, wide.uordblks + wide.hblkhd,
                 "mallinfo like mallinfo2");
    EXPECT(wide.arena + wide.hblkhd >= wide.uordblks + wide.hblkhd,
           "no more in use than the heap has from the system");

    size_t with_small = in_use();
    void *large = malloc(40 * MIB);
    expect_about(in_use() - with_small, 40 * MIB, "a large block");
    free(large);
    expect_about(in_use(), with_small, "after a large free");

    for (int i = 0; i < COUNT; i++)
        free(block[i]);
    EXPECT(in_use() < before + 2 * MIB, "the frees counted: %zu before, %zu after", before, in_use());
    return 0;
}
