// Every size gives a block aligned to 16 bytes, by malloc, calloc and realloc; the larger powers of two too.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    for (size_t bytes = 0; bytes < 70 * KIB; bytes += bytes < 2048 ? 1 : 61) {
        void *block = malloc(bytes), *cleared = calloc(1, bytes);
        EXPECT(is_aligned(block, 16), "malloc(%zu) aligned to 16, not %p", bytes, block);
        EXPECT(is_aligned(cleared, 16), "calloc(1, %zu) aligned to 16, not %p", bytes, cleared);
        block = realloc(block, bytes + 1);
        EXPECT(is_aligned(block, 16), "realloc to %zu aligned to 16, not %p", bytes + 1, block);
        free(block);
        free(cleared);
    }
    for (size_t bytes = 64 * KIB; bytes <= 256 * MIB; bytes *= 2) {
        void *block = malloc(bytes + 1);
        EXPECT(block != NULL && is_aligned(block, 16), "malloc(%zu) aligned to 16", bytes + 1);
        free(block);
    }
    return 0;
}
