// malloc(0), calloc(0, n), calloc(n, 0) and memalign(n, 0) give pointers that nobody else has and that can be
// freed.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    enum { COUNT = 400 };
    void *block[COUNT];
    for (int i = 0; i < COUNT; i += 4) {
        block[i] = malloc(0);
        block[i + 1] = calloc(0, 8);
        block[i + 2] = calloc(8, 0);
        block[i + 3] = memalign(64, 0);
    }
    for (int i = 0; i < COUNT; i++) {
        EXPECT(block[i] != NULL, "a pointer for size 0");
        for (int j = 0; j < i; j++)
            EXPECT(block[i] != block[j], "pointers for size 0 to differ");
    }
    for (int i = 0; i < COUNT; i++)
        free(block[i]);
    return 0;
}
