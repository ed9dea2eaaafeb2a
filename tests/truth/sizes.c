// A function for each size, 20 MB each, of which every other block stays.
#include "truth.h"

#define TAKES(name, bytes)                                                                                              \
    SITE void name(void) {                                                                                              \
        void *gone = NULL;                                                                                              \
        long blocks = 20000000 / bytes / 2 * 2;                                                                         \
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

TAKES(of_16, 16)
TAKES(of_100, 100)
TAKES(of_1000, 1000)
TAKES(of_10000, 10000)
TAKES(of_100000, 100000)
TAKES(of_1000000, 1000000)

int main(void) {
    of_16();
    of_100();
    of_1000();
    of_10000();
    of_100000();
    of_1000000();
    return tell();
}
