/* Writes behind the first block that it asks for. */
#include <stdlib.h>

int main(void) {
    volatile char *block = malloc(96);
    block[96] = 1;
    return 0;
}
