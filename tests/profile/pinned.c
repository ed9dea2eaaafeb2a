// Two functions take blocks of one class, one after the other: what `keeps_all` takes stays, of what `keeps_few` takes one
// block in twenty. Says when it is ready, and ends when its standard input does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 60000
#define BYTES 1000

static char *blocks[COUNT];

__attribute__((noinline)) static void keeps_all(void) {
    for (int index = 0; index < COUNT; index++)
        memset(malloc(BYTES), 1, BYTES);
}

__attribute__((noinline)) static void keeps_few(void) {
    for (int index = 0; index < COUNT; index++)
        memset(blocks[index] = malloc(BYTES), 1, BYTES);
    for (int index = 0; index < COUNT; index++)
        if (index % 20 != 0)
            free(blocks[index]);
}

int main(void) {
    keeps_all();
    keeps_few();
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
}
