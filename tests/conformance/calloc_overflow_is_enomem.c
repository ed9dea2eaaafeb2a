// A product that does not fit gives null and ENOMEM, never a block of the product's low bits.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    volatile size_t half = (size_t)1 << 32, most = SIZE_MAX;
    EXPECT_NO_MEMORY(calloc(half, half));
    EXPECT_NO_MEMORY(calloc(half, half + 1));
    EXPECT_NO_MEMORY(calloc(most, 2));
    EXPECT_NO_MEMORY(calloc(2, most));
    EXPECT_NO_MEMORY(calloc(most, most));
    EXPECT_NO_MEMORY(calloc(most / 2 + 1, 2));
    EXPECT_NO_MEMORY(calloc(most / 16 + 2, 16));
    EXPECT_NO_MEMORY(calloc(((size_t)1 << 61) + 1, 8));
    unsigned char *block = calloc(1000, 7);
    EXPECT(block != NULL && is_zero(block, 7000), "7000 cleared bytes");
    free(block);
    return 0;
}
