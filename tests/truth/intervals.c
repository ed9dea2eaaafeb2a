// Sizes around the interval at which samples are drawn, where the chance of a block is neither small nor one.
#include "truth.h"

#define TAKES(name, bytes)                                                                                              \
    SITE void name(void) {                                                                                              \
        void *gone = NULL;                                                                                              \
        long blocks = 40000000 / (bytes) / 2 * 2;                                                                       \
        for (long block = 0; block < blocks; block++) {                                                                 \
            void *taken = malloc(bytes);                                                                                \
            use(taken);                                                                                                 \
            if (block % 2 == 0)                                                                                         \
                gone = pushed(gone, taken);                                                                             \
        }                                                                                                               \
        took(__func__, bytes, blocks);                                                                                  \
        free_all(gone);                                                                                                 \
        gave(__func__, bytes, blocks / 2);                                                                              \
    }

TAKES(a_quarter, INTERVAL / 4)
TAKES(a_half, INTERVAL / 2 + 1)
TAKES(as_long, INTERVAL)
TAKES(twice_as_long, INTERVAL * 2 - 1)
TAKES(four_times_as_long, INTERVAL * 4)
TAKES(sixteen_times_as_long, INTERVAL * 16)

int main(void) {
    a_quarter();
    a_half();
    as_long();
    twice_as_long();
    four_times_as_long();
    sixteen_times_as_long();
    return tell();
}
