// malloc_trim returns 1 and the resident size falls when there was memory to give back.
// on: glibc preload locked hardened static
#include "check.h"

static size_t resident(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long total, pages;
    EXPECT(file != NULL && fscanf(file, "%lu %lu", &total, &pages) == 2, "/proc/self/statm to be readable");
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

int main(void) {
    enum { COUNT = 16000, BYTES = 4500 };
    static void *block[COUNT];
    for (int i = 0; i < COUNT; i++) {
        block[i] = malloc(BYTES);
        memset(block[i], 1, BYTES);
    }
    /* Allocated last, so that glibc does not trim by itself. */
    void *last = malloc(BYTES);
    size_t full = resident();
    for (int i = 0; i < COUNT; i++)
        free(block[i]);
    EXPECT(malloc_trim(0) == 1, "1, because memory went back");
    size_t after = resident();
    EXPECT(after + 60 * MIB < full, "60 MiB less resident: %zu before, %zu after", full, after);
    for (int i = 0; i < COUNT; i++) {
        block[i] = malloc(BYTES);
        fill(block[i], BYTES, i);
    }
    for (int i = 0; i < COUNT; i++) {
        EXPECT(holds(block[i], BYTES, i), "blocks on pages that were given back to hold their contents");
        free(block[i]);
    }
    free(last);
    return 0;
}
