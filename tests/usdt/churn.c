/* Waits for orders, a count and bytes in a line: allocates and frees so often so much, from the cache where that serves it. */
#include <stdio.h>
#include <stdlib.h>

static void *volatile kept;

int main(void) {
    static char in[64], out[64];
    char line[64];
    setvbuf(stdin, in, _IOFBF, sizeof in);
    setvbuf(stdout, out, _IOFBF, sizeof out);
    size_t count = 0, bytes = 0;
    while (puts("ready"), fflush(stdout), fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%zu %zu", &count, &bytes) != 2)
            return 1;
        /* Large blocks take the slow path, where the library looks whether a tracer has come. */
        for (int i = 0; i < 3; i++) {
            kept = malloc(1 << 20);
            free(kept);
        }
        for (size_t i = 0; i < count; i++) {
            kept = malloc(bytes);
            free(kept);
        }
    }
    return 0;
}
