/* What a thread of the recorded programs does: ten blocks of 100 to 109 bytes. */
#include <stdlib.h>

static void *work(void *given) {
    void *blocks[10];
    for (int i = 0; i < 10; i++)
        blocks[i] = malloc(100 + i);
    for (int i = 0; i < 10; i++)
        free(blocks[i]);
    return given;
}
