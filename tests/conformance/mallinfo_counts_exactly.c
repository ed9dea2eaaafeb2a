// Free blocks in caches are not in use: freeing what was allocated gives exactly the number of before.
// on: preload locked static
#include "check.h"

int main(void) {
    // A guarded sample holds a page, and may be used as far as was asked for.
    int (*option_set)(const char *, const char *) = function("vcm_option_set");
    option_set("guarded_rate", "0");
    enum { COUNT = 1000 };
    static void *block[COUNT];
    for (int round = 0; round < 3; round++) {
        size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
        for (int i = 0; i < COUNT; i++)
            block[i] = malloc(1 + i * 37);
        size_t during = mallinfo2().uordblks + mallinfo2().hblkhd, usable = 0;
        for (int i = 0; i < COUNT; i++)
            usable += malloc_usable_size(block[i]);
        EXPECT(during - before == usable, "%zu more bytes in use, not %zu", usable, during - before);
        for (int i = 0; i < COUNT; i++)
            free(block[i]);
        size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
        EXPECT(after == before, "%zu bytes in use after as before, not %zu", before, after);
    }
    return 0;
}
