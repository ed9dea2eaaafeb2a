/* Has a peak of 300 MB, says so when it is over, and waits for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    static void *block[300];
    for (int i = 0; i < 300; i++)
        memset(block[i] = malloc(1000000), 1, 1000000);
    for (int i = 0; i < 300; i++)
        free(block[i]);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
