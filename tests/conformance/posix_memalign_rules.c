// posix_memalign returns its error, leaves the pointer alone when it fails, and takes only powers of two that
// are multiples of a pointer's size.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    int marker = 0;
    static const size_t bad[] = {0, 1, 2, 4, 3, 7, 12, 24, 48, 100, 4095, 4097, SIZE_MAX, SIZE_MAX - 7};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        void *block = &marker;
        errno = 4711;
        EXPECT(posix_memalign(&block, bad[i], 100) == EINVAL, "EINVAL for alignment %zu", bad[i]);
        EXPECT(block == &marker, "the pointer left alone for alignment %zu", bad[i]);
        EXPECT(errno == 4711, "errno left alone for alignment %zu", bad[i]);
    }
    void *block = &marker;
    EXPECT(posix_memalign(&block, 64, beyond_ptrdiff) == ENOMEM, "ENOMEM beyond PTRDIFF_MAX");
    EXPECT(block == &marker, "the pointer left alone without memory");
    EXPECT(posix_memalign(&block, 4096, SIZE_MAX) == ENOMEM, "ENOMEM for SIZE_MAX");
    EXPECT(block == &marker, "the pointer left alone without memory");
    EXPECT(posix_memalign(&block, GIB, (size_t)1 << 60) == ENOMEM, "ENOMEM for 2^60 bytes");
    EXPECT(block == &marker, "the pointer left alone without memory");

    for (size_t alignment = sizeof(void *); alignment <= 32 * MIB; alignment *= 2) {
        for (size_t bytes = 0; bytes <= MIB; bytes = bytes * 7 + 1) {
            errno = 4711;
            EXPECT(posix_memalign(&block, alignment, bytes) == 0,
                   "%zu bytes aligned to %zu", bytes, alignment);
            EXPECT(errno == 4711, "errno left alone by success");
            EXPECT(block != NULL && is_aligned(block, alignment), "%p aligned to %zu", block, alignment);
            memset(block, 1, bytes);
            free(block);
        }
    }
    return 0;
}
