// realloc, by which a block is given back and one of another size taken, whether it moves or not.
#include "truth.h"

#define RESIZE(block, before, after)                                                                                    \
    do {                                                                                                                \
        void *other = realloc(block, after);                                                                            \
        use(other);                                                                                                     \
        if (block != NULL)                                                                                              \
            gave(__func__, before, 1);                                                                                  \
        took(__func__, after, 1);                                                                                       \
        block = other;                                                                                                  \
    } while (0)

// A string that grows by a few bytes, mostly within its size class.
SITE void grows_a_little(int strings) {
    for (int string = 0; string < strings; string++) {
        void *block = NULL;
        for (size_t bytes = 1000; bytes <= 1200; bytes += 20)
            RESIZE(block, bytes - 20, bytes);
    }
}

// A buffer that doubles, from the small classes to runs of its own.
SITE void doubles(int buffers) {
    for (int buffer = 0; buffer < buffers; buffer++) {
        void *block = NULL;
        for (size_t bytes = 512; bytes <= 512 << 10; bytes *= 2)
            RESIZE(block, bytes / 2, bytes);
        if (buffer % 2 == 0) {
            free(block);
            gave(__func__, 512 << 10, 1);
        }
    }
}

// A buffer that grows where it lies.
SITE void grows_by_pages(int buffers) {
    for (int buffer = 0; buffer < buffers; buffer++) {
        void *block = NULL;
        for (size_t bytes = 64 << 10; bytes <= 128 << 10; bytes += 4 << 10)
            RESIZE(block, bytes - (4 << 10), bytes);
    }
}

SITE void shrinks(int buffers) {
    for (int buffer = 0; buffer < buffers; buffer++) {
        void *block = NULL;
        RESIZE(block, 0, 9000);
        RESIZE(block, 9000, 6000);
        RESIZE(block, 6000, 700);
    }
}

int main(void) {
    grows_a_little(2500);
    doubles(40);
    grows_by_pages(25);
    shrinks(2500);
    return tell();
}
