// calloc, reallocarray and the strings that libc copies.
#include "truth.h"

#define HALVES(name, bytes, blocks, call)                                                                               \
    SITE void name(void) {                                                                                              \
        void *gone = NULL;                                                                                              \
        for (long block = 0; block < blocks; block++) {                                                                 \
            void *taken = call;                                                                                         \
            use(taken);                                                                                                 \
            if (block % 2 == 0)                                                                                         \
                gone = pushed(gone, taken);                                                                             \
        }                                                                                                               \
        took(__func__, bytes, blocks);                                                                                  \
        free_all(gone);                                                                                                 \
        gave(__func__, bytes, blocks / 2);                                                                              \
    }

static char text[801];

HALVES(of_many_small, 96, 100000, calloc(12, 8))
HALVES(of_untouched, 20000, 500, calloc(1, 20000))
HALVES(of_large, 300000, 40, calloc(3, 100000))
HALVES(of_products, 1500, 8000, reallocarray(NULL, 30, 50))
HALVES(of_strings, 801, 12000, strdup(text))
HALVES(of_beginnings, 201, 48000, strndup(text, 200))

int main(void) {
    memset(text, 'x', 800);
    of_many_small();
    of_untouched();
    of_large();
    of_products();
    of_strings();
    of_beginnings();
    return tell();
}
