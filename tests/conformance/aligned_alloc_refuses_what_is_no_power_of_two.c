// C17, and glibc from 2.38 on: aligned_alloc with an alignment that is no power of two is null and EINVAL. A size that is
// no multiple of the alignment is taken.
// on: preload locked hardened static
#include "check.h"

int main(void) {
    static const size_t WRONG[] = {0, 3, 24, 129, 4095, 4097, SIZE_MAX / 2 + 2, SIZE_MAX};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
        for (size_t bytes = 0; bytes < 100000; bytes = 3 * bytes + 1) {
            volatile size_t alignment = WRONG[i];
            errno = 0;
            EXPECT(aligned_alloc(alignment, bytes) == NULL && errno == EINVAL, "EINVAL for %zu", alignment);
        }
    for (size_t alignment = 1; alignment <= 8 * MIB; alignment *= 2)
        for (size_t bytes = 0; bytes < 100000; bytes = 3 * bytes + 1) {
            errno = 1;
            unsigned char *block = aligned_alloc(alignment, bytes);
            EXPECT(block != NULL && errno == 1 && is_aligned(block, alignment < 16 ? 16 : alignment),
                   "aligned_alloc(%zu, %zu) = %p", alignment, bytes, block);
            memset(block, 1, bytes);
            free(block);
        }
    EXPECT_NO_MEMORY(aligned_alloc(SIZE_MAX / 2 + 1, 10));
    EXPECT_NO_MEMORY(aligned_alloc(64, PTRDIFF_MAX));
    return 0;
}
