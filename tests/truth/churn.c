// Most of what is taken comes from the cache and goes back into it at once; a little stays.
#include "truth.h"

SITE void comes_and_goes(void) {
    for (int round = 0; round < 500000; round++) {
        void *block = malloc(100);
        use(block);
        free(block);
    }
    took(__func__, 100, 500000);
    gave(__func__, 100, 500000);
}

SITE void comes_and_goes_in_turns(void) {
    static const size_t sizes[] = {24, 300, 3000, 30000};
    for (int round = 0; round < 1500; round++) {
        void *blocks[4];
        for (int at = 0; at < 4; at++)
            use(blocks[at] = malloc(sizes[at]));
        for (int at = 0; at < 4; at++)
            free(blocks[at]);
    }
    for (int at = 0; at < 4; at++) {
        took(__func__, sizes[at], 1500);
        gave(__func__, sizes[at], 1500);
    }
}

SITE void stays(void) {
    for (int round = 0; round < 5000; round++)
        use(malloc(700));
    took(__func__, 700, 5000);
}

int main(void) {
    for (int part = 0; part < 2; part++) {
        comes_and_goes();
        stays();
        comes_and_goes_in_turns();
    }
    return tell();
}
