// The first block lies elsewhere in each run, also by the low half of its address, and its place tells nothing of the
// secrets that glibc got from the kernel.
// on: preload locked hardened static
#include "check.h"
#include <sys/auxv.h>

enum { RUNS = 24 };

int main(int argc, char **argv) {
    if (argc > 1) {
        uint64_t secret;
        memcpy(&secret, (void *)getauxval(AT_RANDOM), sizeof secret);
        printf("%llx %llx\n", (unsigned long long)(uintptr_t)malloc(100), (unsigned long long)secret);
        return 0;
    }
    uint64_t place[RUNS], changes = 0, distance[64] = {0};
    int same_halves = 0;
    char command[4096];
    snprintf(command, sizeof command, "'%s' inside", argv[0]);
    for (int run = 0; run < RUNS; run++) {
        unsigned long long address, secret;
        FILE *pipe = popen(command, "r");
        EXPECT(pipe != NULL && fscanf(pipe, "%llx %llx", &address, &secret) == 2, "run %d to say where", run);
        pclose(pipe);
        place[run] = address;
        changes |= address ^ place[0];
        for (int other = 0; other < run; other++)
            same_halves += (uint32_t)place[other] == (uint32_t)address;
        // Five bits of the place beside the same five of the secret, wherever those lie.
        for (int shift = 0; shift < 60; shift++)
            for (int bit = 18; bit < 42; bit++)
                distance[shift] |= (uint64_t)(((address >> bit ^ secret >> shift) & 31) != 0) << bit;
    }
    for (int shift = 0; shift < 60; shift++)
        EXPECT(~distance[shift] << 22 >> 40 == 0, "bits of the secret from %d on not to be in the place", shift);
    EXPECT(same_halves <= 3, "other low halves in other runs, not %d pairs alike", same_halves);
    EXPECT(__builtin_popcountll(changes) >= 28, "28 bits that change, not those of %llx", (unsigned long long)changes);
    return 0;
}
