// memalign takes any alignment: it rounds it up to a power of two, and refuses beyond half the address space with EINVAL.
// on: glibc preload locked hardened static
#include "check.h"

typedef void *aligned_function(size_t, size_t);

static size_t rounded_up(size_t alignment) {
    size_t power = 16;
    while (power < alignment)
        power *= 2;
    return power;
}

static void expect_rules(aligned_function *allocate, const char *name) {
    for (size_t alignment = 0; alignment <= 8 * MIB; alignment += alignment < 40 ? 1 : alignment * 2 / 3) {
        for (size_t bytes = 0; bytes <= 70000; bytes = bytes * 3 + 1) {
            unsigned char *block = allocate(alignment, bytes);
            EXPECT(block != NULL, "%s(%zu, %zu) to succeed", name, alignment, bytes);
            EXPECT(is_aligned(block, rounded_up(alignment)),
                   "%s(%zu, %zu) = %p aligned", name, alignment, bytes, block);
            EXPECT(malloc_usable_size(block) >= bytes, "%s: a usable size of at least %zu", name, bytes);
            memset(block, 1, malloc_usable_size(block));
            free(block);
        }
    }
    volatile size_t half = SIZE_MAX / 2 + 1;
    errno = 0;
    EXPECT(allocate(half + 1, 10) == NULL && errno == EINVAL,
           "%s: EINVAL beyond half the address space", name);
    errno = 0;
    EXPECT(allocate(SIZE_MAX, 10) == NULL && errno == EINVAL, "%s: EINVAL for SIZE_MAX", name);
    EXPECT_NO_MEMORY(allocate(half, 10));
    EXPECT_NO_MEMORY(allocate(64, PTRDIFF_MAX));
    EXPECT_NO_MEMORY(allocate(GIB, SIZE_MAX - GIB));
}

int main(void) {
    expect_rules(memalign, "memalign");
    return 0;
}
