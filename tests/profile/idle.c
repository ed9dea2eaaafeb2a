// Has one thread, and waits: `idle`. Ends when its standard input does.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    void *block = malloc(100);
    asm volatile("" ::"r"(block) : "memory");
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
}
