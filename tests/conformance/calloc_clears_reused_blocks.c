// calloc gives zeros when it reuses blocks that a program has written, at every size from 1 B to 4 MiB.
// on: glibc preload locked hardened static
#include "check.h"

enum { AT_ONCE = 16 };

static void reuse(size_t bytes) {
    unsigned char *block[AT_ONCE];
    int count = bytes > 64 * KIB ? 3 : AT_ONCE;
    for (int i = 0; i < count; i++) {
        block[i] = malloc(bytes);
        EXPECT(block[i] != NULL, "%zu bytes", bytes);
        memset(block[i], 0xA5, malloc_usable_size(block[i]));
    }
    for (int i = 0; i < count; i++)
        free(block[i]);
    for (int i = 0; i < count; i++) {
        block[i] = calloc(1, bytes);
        EXPECT(block[i] != NULL && is_zero(block[i], bytes), "%zu cleared bytes", bytes);
    }
    for (int i = 0; i < count; i++)
        free(block[i]);
}

int main(void) {
    for (size_t bytes = 1; bytes <= 2100; bytes++)
        reuse(bytes);
    for (size_t bytes = 2100; bytes <= 4 * MIB; bytes += bytes / 16 + 1)
        reuse(bytes);
    for (size_t bytes = 4096; bytes <= 4 * MIB; bytes *= 2) {
        reuse(bytes - 1);
        reuse(bytes);
        reuse(bytes + 1);
    }
    /* Pages of one large block come back as small ones, and the other way round. */
    for (int round = 0; round < 4; round++) {
        unsigned char *large = malloc(8 * MIB);
        memset(large, 0xFF, 8 * MIB);
        free(large);
        enum { COUNT = 2000 };
        static unsigned char *small[COUNT];
        for (int i = 0; i < COUNT; i++) {
            small[i] = calloc(8, 500);
            EXPECT(is_zero(small[i], 4000), "4000 cleared bytes from a large block's pages");
            memset(small[i], 0xFF, 4000);
        }
        for (int i = 0; i < COUNT; i++)
            free(small[i]);
        large = calloc(8, 1 * MIB);
        EXPECT(is_zero(large, 8 * MIB), "8 MiB cleared from small blocks' pages");
        free(large);
    }
    return 0;
}
