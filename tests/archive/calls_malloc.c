/* Calls malloc and free, which compilers know, and nothing else of the heap. */
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    volatile char *block = malloc((size_t)count * 100);
    *block = **arguments;
    free((void *)block);
    puts("87 7 1");
    return 0;
}
