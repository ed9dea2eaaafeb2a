// A program that reserves addresses just behind the heap, in a small or a large piece, is in nobody's way: malloc gives
// memory as before, and what is reserved is not touched.
// on: glibc preload locked hardened static
#include "check.h"
#include <sys/mman.h>

static char *highest;

static char *mib(void) {
    char *block = malloc(MIB);
    highest = block > highest ? block : highest;
    return block;
}

static void *reserve_behind(size_t gib) {
    char *wanted = (char *)(((uintptr_t)highest / GIB + 1) * GIB);
    void *got = mmap(wanted, gib * GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(got != MAP_FAILED, "%zu GiB of addresses", gib);
    return got;
}

int main(void) {
    static const size_t GIBS[] = {1, 32, 300, 900};
    enum { EACH = 1500 };
    static char *block[4][EACH];
    static void *small[4][20000];
    for (int round = 0; round < 4; round++) {
        char *last = mib();
        reserve_behind(GIBS[round]);
        for (int i = 0; i < EACH; i++) {
            block[round][i] = mib();
            EXPECT(block[round][i] != NULL, "MiB %d behind %zu GiB", i, GIBS[round]);
            block[round][i][0] = block[round][i][MIB - 1] = (char)i;
        }
        for (int i = 0; i < 20000; i++)
            EXPECT((small[round][i] = malloc(1000)) != NULL, "small block %d behind %zu GiB", i, GIBS[round]);
        free(last);
    }
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < EACH; i++) {
            EXPECT(block[round][i][0] == (char)i && block[round][i][MIB - 1] == (char)i, "block %d untouched", i);
            free(block[round][i]);
        }
        for (int i = 0; i < 20000; i++)
            free(small[round][i]);
    }
    malloc_trim(0);
    return 0;
}
