// realloc(NULL, n) allocates, realloc(p, 0) frees and gives null, and a failure leaves the old block as it
// was.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    unsigned char *block = realloc(NULL, 100);
    EXPECT(block != NULL, "realloc(NULL, 100) to allocate");
    memset(block, 7, 100);
    EXPECT(realloc(block, 0) == NULL, "realloc(p, 0) to give null");

    block = realloc(NULL, 0);
    EXPECT(block != NULL, "realloc(NULL, 0) to give a pointer, like malloc(0)");
    free(block);

    /* If realloc(p, 0) did not free, this would need 40 GiB. */
    for (int i = 0; i < 10000; i++) {
        unsigned char *large = malloc(4 * MIB);
        EXPECT(large != NULL, "block %d of 4 MiB, the earlier ones being freed by realloc(p, 0)", i);
        large[0] = large[4 * MIB - 1] = 1;
        EXPECT(realloc(large, 0) == NULL, "realloc(p, 0) to give null");
    }

    static const size_t sizes[] = {1, 100, 5000, 300 * 1024, 5 * 1024 * 1024};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        block = malloc(sizes[i]);
        fill(block, sizes[i], 5);
        EXPECT_NO_MEMORY(realloc(block, beyond_ptrdiff));
        EXPECT_NO_MEMORY(realloc(block, SIZE_MAX));
        EXPECT_NO_MEMORY(realloc(block, (size_t)1 << 60));
        EXPECT_NO_MEMORY(reallocarray(block, SIZE_MAX / 2, 3));
        EXPECT(holds(block, sizes[i], 5), "a failed realloc to leave %zu bytes alone", sizes[i]);
        free(block);
    }

    /* Blocks of the aligned family can be resized. */
    for (size_t alignment = 16; alignment <= 4 * MIB; alignment *= 4) {
        block = memalign(alignment, 777);
        fill(block, 777, 6);
        block = realloc(block, 70000);
        EXPECT(block != NULL && holds(block, 777, 6), "an aligned block's contents kept");
        free(block);
    }
    return 0;
}
