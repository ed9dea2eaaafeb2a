// Growing and shrinking keeps what fits of the contents, from 1 B to 64 MiB, and every step's size.
// on: glibc preload locked registered hardened static
#include "check.h"

static void through(size_t from, size_t to) {
    unsigned seed = (unsigned)(from * 7 + to);
    unsigned char *block = malloc(from);
    EXPECT(block != NULL, "%zu bytes", from);
    fill(block, from, seed);
    block = realloc(block, to);
    EXPECT(block != NULL, "%zu bytes from %zu", to, from);
    size_t kept = from < to ? from : to;
    EXPECT(holds(block, kept, seed), "the first %zu bytes kept from %zu to %zu", kept, from, to);
    EXPECT(malloc_usable_size(block) >= to, "a usable size of at least %zu", to);
    memset(block, 1, to);
    free(block);
}

int main(void) {
    static const size_t sizes[] = {1, 15, 16, 17, 24, 100, 128, 129, 1000, 1024, 4095, 4096, 4097, 9000, 32768,
                                   65537, 131072, 262143, 262144, 262145, 300000, 1 * MIB, 2 * MIB + 1, 5 * MIB};
    const int count = sizeof sizes / sizeof *sizes;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            through(sizes[i], sizes[j]);

    /* One block all the way up and down again. */
    size_t bytes = 1;
    unsigned char *block = malloc(bytes);
    fill(block, bytes, 3);
    for (; bytes < 64 * MIB; bytes *= 2) {
        block = realloc(block, bytes * 2);
        EXPECT(block != NULL, "%zu bytes", bytes * 2);
        EXPECT(bytes > MIB || holds(block, bytes, 3), "%zu bytes of contents kept while growing", bytes);
        fill(block, bytes * 2, 3);
    }
    for (; bytes > 1; bytes /= 4) {
        block = realloc(block, bytes / 4);
        EXPECT(block != NULL && holds(block, bytes / 4, 3),
               "%zu bytes of contents kept while shrinking", bytes / 4);
    }
    free(block);

    /* Byte by byte, with neighbours that would notice an overlap. */
    unsigned char *neighbour[2] = {malloc(40), NULL};
    block = malloc(1);
    neighbour[1] = malloc(40);
    fill(neighbour[0], 40, 8);
    fill(neighbour[1], 40, 9);
    for (size_t size = 1; size <= 5000; size++) {
        block = realloc(block, size);
        EXPECT(block != NULL, "%zu bytes", size);
        block[size - 1] = pattern(size - 1, 4);
    }
    EXPECT(holds(block, 5000, 4), "5000 bytes written one by one to stay");
    EXPECT(holds(neighbour[0], 40, 8) && holds(neighbour[1], 40, 9), "the neighbours untouched");
    free(block);
    free(neighbour[0]);
    free(neighbour[1]);
    return 0;
}
