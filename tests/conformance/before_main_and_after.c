// Constructors before main, atexit handlers and destructors after it may allocate, resize and free.
// on: glibc preload locked hardened static
#include "check.h"

static unsigned char *early;

__attribute__((constructor(101))) static void first(void) {
    early = malloc(1000);
    EXPECT(early != NULL, "a block before main");
    early = realloc(early, 300000);
    EXPECT(early != NULL, "a resized block before main");
    fill(early, 300000, 2);
}

static void at_exit(void) {
    EXPECT(holds(early, 300000, 2), "the block from before main");
    void *block = calloc(1, 5000);
    EXPECT(block != NULL && is_zero(block, 5000), "cleared bytes at exit");
    free(block);
    early = realloc(early, 400000);
    EXPECT(early != NULL && holds(early, 300000, 2), "a resized block at exit");
}

__attribute__((destructor(101))) static void last(void) {
    EXPECT(holds(early, 300000, 2), "the block from before main");
    free(early);
    void *block = malloc(10 * MIB);
    EXPECT(block != NULL, "a block after main");
    free(block);
}

int main(void) {
    EXPECT(holds(early, 300000, 2), "the block from before main");
    for (int i = 0; i < 40; i++)
        EXPECT(atexit(at_exit) == 0, "an exit handler");
    return 0;
}
