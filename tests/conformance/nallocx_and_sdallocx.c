// nallocx foretells malloc_usable_size, 0 for what cannot be; sdallocx frees with size and alignment in its
// flags.
// on: preload locked hardened static
#include "check.h"

/* The flags of the interface: the logarithm of the alignment in the low six bits. */
static int alignment_flag(int power) {
    return power;
}

int main(void) {
    size_t (*nallocx)(size_t, int) = function("nallocx");
    void (*sdallocx)(void *, size_t, int) = function("sdallocx");
    // A guarded sample has exactly the bytes that were asked for.
    int (*option_set)(const char *, const char *) = function("vcm_option_set");
    option_set("guarded_rate", "0");
    for (size_t bytes = 1; bytes < 20 * MIB; bytes = bytes * 9 / 8 + 1) {
        void *block = malloc(bytes);
        EXPECT(nallocx(bytes, 0) == malloc_usable_size(block),
               "nallocx(%zu) to be the usable size %zu, not %zu", bytes,
               malloc_usable_size(block), nallocx(bytes, 0));
        sdallocx(block, bytes, 0);
        for (int power = 4; power <= 14; power += 5) {
            block = aligned_alloc((size_t)1 << power, bytes);
            EXPECT(nallocx(bytes, alignment_flag(power)) >= bytes, "at least %zu", bytes);
            sdallocx(block, bytes, alignment_flag(power));
        }
    }
    EXPECT(nallocx(beyond_ptrdiff, 0) == 0, "0 beyond PTRDIFF_MAX");
    EXPECT(nallocx(SIZE_MAX, 0) == 0, "0 for SIZE_MAX");
    return 0;
}
