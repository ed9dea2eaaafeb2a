/* Frees a block twice. */
#include <stdlib.h>

int main(void) {
    char *volatile block = malloc(1000);
    free(block);
    free(block);
    return 0;
}
