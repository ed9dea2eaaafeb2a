// mallopt takes glibc's parameters, refuses the values glibc refuses, and the heap works afterwards.
// on: glibc preload locked hardened static
#include "check.h"

int main(void) {
    EXPECT(mallopt(M_MMAP_THRESHOLD, 1024 * 1024) == 1, "M_MMAP_THRESHOLD accepted");
    EXPECT(mallopt(M_TRIM_THRESHOLD, 1024 * 1024) == 1, "M_TRIM_THRESHOLD accepted");
    EXPECT(mallopt(M_TOP_PAD, 4096) == 1, "M_TOP_PAD accepted");
    EXPECT(mallopt(M_MMAP_MAX, 1000) == 1, "M_MMAP_MAX accepted");
    EXPECT(mallopt(M_ARENA_MAX, 2) == 1, "M_ARENA_MAX accepted");
    EXPECT(mallopt(M_ARENA_TEST, 2) == 1, "M_ARENA_TEST accepted");
    EXPECT(mallopt(M_PERTURB, 0) == 1, "M_PERTURB accepted");
    EXPECT(mallopt(M_MXFAST, 64) == 1, "M_MXFAST accepted");
    EXPECT(mallopt(M_MXFAST, 1000000) == 0, "M_MXFAST of 1,000,000 refused");
    EXPECT(mallopt(12345, 1) == 1, "an unknown parameter answered with 1, as glibc does");
    for (size_t bytes = 1; bytes < 8 * MIB; bytes *= 3) {
        void *block = malloc(bytes);
        EXPECT(block != NULL, "%zu bytes afterwards", bytes);
        memset(block, 1, bytes);
        free(block);
    }
    return 0;
}
