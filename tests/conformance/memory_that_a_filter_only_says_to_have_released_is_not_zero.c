// A filter that answers madvise with success, and does nothing, is not believed: calloc gives zeros.
// on: glibc preload locked hardened
#include "filter.h"
#include "check.h"

int main(void) {
    static struct filter filter;
    static const size_t sizes[] = {20 * KIB, 200 * KIB, MIB, 3 * MIB, 40 * MIB};
    enum { SIZES = sizeof sizes / sizeof *sizes, ROUNDS = 6, MOST = 64 };
    free(malloc(10));
    begin_filter(&filter);
    ANSWER(&filter, SECCOMP_RET_ERRNO, SYS_madvise);
    end_filter(&filter, SECCOMP_RET_ALLOW);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter.program) == 0, "a filter");
    for (int round = 0; round < ROUNDS * SIZES; round++) {
        size_t bytes = sizes[round % SIZES], count = bytes > 8 * MIB ? 4 : MOST;
        unsigned char *block[MOST];
        for (size_t i = 0; i < count; i++) {
            block[i] = calloc(1, bytes);
            EXPECT(block[i] != NULL, "%zu bytes", bytes);
            for (size_t at = 0; at < bytes; at += 64)
                EXPECT(block[i][at] == 0, "zeros in %zu bytes, round %d", bytes, round);
            memset(block[i], 0xaa, bytes);
        }
        for (size_t i = 0; i < count; i++)
            free(block[i]);
    }
    return 0;
}
