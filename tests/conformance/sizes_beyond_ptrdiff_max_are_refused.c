// Beyond PTRDIFF_MAX every function refuses with ENOMEM, also when rounding up would wrap to a small size.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    static const size_t below[] = {0, 1, 15, 16, 17, 100, 4095, 4096, 4097, 65536, 2 * 1024 * 1024};
    size_t sizes[64], count = 0;
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        sizes[count++] = beyond_ptrdiff + below[i];
        sizes[count++] = SIZE_MAX - below[i];
    }
    for (size_t i = 0; i < count; i++) {
        size_t bytes = sizes[i];
        EXPECT_NO_MEMORY(malloc(bytes));
        EXPECT_NO_MEMORY(calloc(1, bytes));
        EXPECT_NO_MEMORY(calloc(bytes, 1));
        EXPECT_NO_MEMORY(realloc(NULL, bytes));
        EXPECT_NO_MEMORY(reallocarray(NULL, bytes, 1));
        EXPECT_NO_MEMORY(memalign(64, bytes));
        EXPECT_NO_MEMORY(memalign(8, bytes));
        EXPECT_NO_MEMORY(aligned_alloc(4096, bytes));
        EXPECT_NO_MEMORY(valloc(bytes));
        EXPECT_NO_MEMORY(pvalloc(bytes));
        void *untouched = &count;
        EXPECT(posix_memalign(&untouched, 64, bytes) == ENOMEM,
               "posix_memalign of %zu to return ENOMEM", bytes);
        EXPECT(untouched == &count, "posix_memalign to leave the pointer alone");
    }
    /* Below PTRDIFF_MAX, but more than any address space holds. */
    EXPECT_NO_MEMORY(malloc((size_t)PTRDIFF_MAX));
    EXPECT_NO_MEMORY(malloc((size_t)PTRDIFF_MAX - 4096));
    EXPECT_NO_MEMORY(malloc((size_t)1 << 60));
    EXPECT_NO_MEMORY(calloc(1, (size_t)1 << 60));
    EXPECT_NO_MEMORY(memalign(4096, (size_t)1 << 60));
    void *after = malloc(100);
    EXPECT(after != NULL, "the heap to work afterwards");
    free(after);
    return 0;
}
