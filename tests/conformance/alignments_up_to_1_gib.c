// Alignments up to 1 GiB hold, many blocks of one alignment do not overlap, and their memory comes back.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    for (int round = 0; round < 3; round++) {
        for (size_t alignment = 4096; alignment <= GIB; alignment *= 2) {
            unsigned char *block[6];
            int count = alignment > 64 * MIB ? 2 : 6;
            for (int i = 0; i < count; i++) {
                block[i] = memalign(alignment, 5000 + i);
                EXPECT(block[i] != NULL && is_aligned(block[i], alignment),
                       "%p aligned to %zu", block[i], alignment);
                fill(block[i], 5000 + i, i);
            }
            for (int i = 0; i < count; i++)
                EXPECT(holds(block[i], 5000 + i, i),
                       "block %d of alignment %zu untouched by the others", i, alignment);
            for (int i = 0; i < count; i++)
                free(block[i]);
        }
    }
    /* 400 blocks in turn: if they stayed, this would need 40 GiB. */
    for (int i = 0; i < 400; i++) {
        char *block = memalign(64 * MIB, 100 * MIB);
        EXPECT(block != NULL, "block %d of 100 MiB, the earlier ones being freed", i);
        block[0] = block[100 * MIB - 1] = 1;
        free(block);
    }
    return 0;
}
