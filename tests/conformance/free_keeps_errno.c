// free leaves errno as it was: for null, for small blocks, and for large ones whose pages go back to the
// system.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    errno = 4711;
    free(NULL);
    EXPECT(errno == 4711, "free(NULL) to keep errno");
    for (size_t bytes = 1; bytes <= 512 * MIB; bytes *= 2) {
        char *block = malloc(bytes);
        EXPECT(block != NULL, "%zu bytes", bytes);
        block[0] = block[bytes - 1] = 1;
        errno = 4711;
        free(block);
        EXPECT(errno == 4711, "free of %zu bytes to keep errno", bytes);
    }
    void *aligned = memalign(2 * MIB, 3 * MIB);
    errno = 4711;
    free(aligned);
    EXPECT(errno == 4711, "free of an aligned block to keep errno");
    /* Many at once, so that blocks leave the caches and spans go back. */
    enum { COUNT = 20000 };
    static void *block[COUNT];
    for (int i = 0; i < COUNT; i++)
        block[i] = malloc(500 + i % 4000);
    errno = 4711;
    for (int i = 0; i < COUNT; i++)
        free(block[i]);
    EXPECT(errno == 4711, "many frees to keep errno");
    return 0;
}
