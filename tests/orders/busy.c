/* One thread that allocates what its cache has, all the time. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 100; i++)
        free(malloc(100));
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (int i = 0; i < 100; i++)
            free(malloc(100));
        usleep(1000);
    }
}
