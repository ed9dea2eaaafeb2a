/* Whether the heap still grows, and gives back. */
#ifndef GROWTH_H
#define GROWTH_H

#include "check.h"

/* Takes 80 MiB, as small and as large blocks, and frees them; whether all could be had. */
__attribute__((unused)) static int grows(void) {
    enum { SMALL = 40000, LARGE = 40 };
    static void *block[SMALL + LARGE];
    int had = 0;
    for (int i = 0; i < SMALL + LARGE; i++) {
        size_t bytes = i < SMALL ? 1000 : MIB;
        if ((block[i] = malloc(bytes)) != NULL)
            had += memset(block[i], 1, bytes) != NULL;
    }
    for (int i = 0; i < SMALL + LARGE; i++)
        free(block[i]);
    return had == SMALL + LARGE;
}

/* Waits, with light traffic, until little is in memory. */
__attribute__((unused)) static void expect_memory_back(void) {
    int (*stats_get)(const char *, uint64_t *) = function("vcm_stats_get");
    uint64_t resident = 0;
    for (int tries = 0; tries < 200; tries++) {
        stats_get("resident", &resident);
        if (resident < 24 * MIB)
            return;
        free(malloc(5000));
        free(malloc(300000));
        usleep(50 * 1000);
    }
    EXPECT(resident < 24 * MIB, "the memory to go back, not %zu MiB to stay", (size_t)(resident / MIB));
}

#endif
