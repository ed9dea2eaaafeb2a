// reallocarray multiplies with care: ENOMEM on overflow with the old block untouched, realloc otherwise.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    volatile size_t half = (size_t)1 << 32, most = SIZE_MAX;
    unsigned char *block = reallocarray(NULL, 30, 10);
    EXPECT(block != NULL, "300 bytes");
    fill(block, 300, 1);
    EXPECT_NO_MEMORY(reallocarray(block, half, half));
    EXPECT_NO_MEMORY(reallocarray(block, most, 2));
    EXPECT_NO_MEMORY(reallocarray(block, 2, most));
    EXPECT_NO_MEMORY(reallocarray(block, most / 8 + 2, 8));
    EXPECT(holds(block, 300, 1), "an overflow to leave the block alone");
    block = reallocarray(block, 1000, 1000);
    EXPECT(block != NULL && holds(block, 300, 1), "contents kept in 1,000,000 bytes");
    block = reallocarray(block, 10, 3);
    EXPECT(block != NULL && holds(block, 30, 1), "contents kept in 30 bytes");
    EXPECT(reallocarray(block, 0, 8) == NULL, "a product of 0 to free and give null");
    return 0;
}
