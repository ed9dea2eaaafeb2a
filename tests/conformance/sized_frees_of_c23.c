// free_sized, free_aligned_sized and cfree free; null is allowed; errno is kept.
// on: preload locked hardened static
#include "check.h"

int main(void) {
    void (*free_sized)(void *, size_t) = function("free_sized");
    void (*free_aligned_sized)(void *, size_t, size_t) = function("free_aligned_sized");
    void (*cfree)(void *) = function("cfree");
    free_sized(NULL, 0);
    free_sized(NULL, 10);
    free_aligned_sized(NULL, 64, 10);
    cfree(NULL);
    for (size_t bytes = 0; bytes < 20 * MIB; bytes = bytes * 9 / 8 + 1) {
        /* Several times, so that a block freed to a wrong place shows as an overlap. */
        for (int i = 0; i < 4; i++) {
            unsigned char *block = malloc(bytes), *cleared = calloc(1, bytes);
            unsigned char *aligned = aligned_alloc(256, bytes);
            EXPECT(block != NULL && cleared != NULL && aligned != NULL, "%zu bytes", bytes);
            EXPECT(is_zero(cleared, bytes), "%zu cleared bytes", bytes);
            memset(block, 1, bytes);
            memset(aligned, 2, bytes);
            memset(cleared, 3, bytes);
            errno = 4711;
            free_sized(block, bytes);
            free_aligned_sized(aligned, 256, bytes);
            cfree(cleared);
            EXPECT(errno == 4711, "errno kept");
        }
    }
    /* What the hardened library holds back counts as used. */
    malloc_trim(0);
    size_t used = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < 1000; i++)
        free_sized(malloc(100000), 100000);
    malloc_trim(0);
    EXPECT(mallinfo2().uordblks + mallinfo2().hblkhd == used, "every sized free to free");
    return 0;
}
