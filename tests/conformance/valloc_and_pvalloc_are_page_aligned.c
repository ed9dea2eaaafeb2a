// valloc aligns to a page; pvalloc also rounds the size up to whole pages, of which every byte is usable.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    size_t page = sysconf(_SC_PAGESIZE);
    for (size_t bytes = 0; bytes < 20 * page; bytes = bytes * 2 + 1) {
        unsigned char *block = valloc(bytes);
        EXPECT(block != NULL && is_aligned(block, page), "valloc(%zu) aligned to a page", bytes);
        EXPECT(malloc_usable_size(block) >= bytes, "valloc(%zu) usable", bytes);
        memset(block, 1, bytes);
        free(block);
        block = pvalloc(bytes);
        size_t rounded = (bytes + page - 1) / page * page;
        EXPECT(block != NULL && is_aligned(block, page), "pvalloc(%zu) aligned to a page", bytes);
        EXPECT(malloc_usable_size(block) >= rounded, "pvalloc(%zu) to give %zu bytes", bytes, rounded);
        memset(block, 1, rounded);
        free(block);
    }
    /* Rounding up to a page wraps here. */
    EXPECT_NO_MEMORY(pvalloc(SIZE_MAX));
    EXPECT_NO_MEMORY(pvalloc(SIZE_MAX - page + 2));
    EXPECT_NO_MEMORY(pvalloc(beyond_ptrdiff));
    EXPECT_NO_MEMORY(valloc(SIZE_MAX));
    return 0;
}
