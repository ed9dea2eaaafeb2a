// Blocks at multiples, by each function that takes them.
#include "truth.h"
#include <malloc.h>

#define HALVES(name, bytes, blocks, call)                                                                               \
    SITE void name(void) {                                                                                              \
        void *gone = NULL;                                                                                              \
        for (long block = 0; block < blocks; block++) {                                                                 \
            void *taken = NULL;                                                                                         \
            call;                                                                                                       \
            use(taken);                                                                                                 \
            if (block % 2 == 0)                                                                                         \
                gone = pushed(gone, taken);                                                                             \
        }                                                                                                               \
        took(__func__, bytes, blocks);                                                                                  \
        free_all(gone);                                                                                                 \
        gave(__func__, bytes, (blocks + 1) / 2);                                                                        \
    }

HALVES(to_cache_lines, 200, 60000, taken = memalign(64, 200))
HALVES(to_pages, 5000, 2400, if (posix_memalign(&taken, 4096, 5000) != 0) abort())
HALVES(to_own_size, 512, 24000, taken = aligned_alloc(512, 512))
HALVES(to_huge_pages, 100000, 120, taken = memalign(2 << 20, 100000))
HALVES(to_whole_pages, 12288, 1000, taken = valloc(12288))
HALVES(to_little, 40, 300000, taken = memalign(8, 40))

int main(void) {
    to_cache_lines();
    to_pages();
    to_own_size();
    to_huge_pages();
    to_whole_pages();
    to_little();
    return tell();
}
