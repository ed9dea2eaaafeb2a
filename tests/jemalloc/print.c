// malloc_stats_print: what it hands to the caller's function; with an argument as letters of what is left out.
#include "expect.h"

static void write_out(void *opaque, const char *text) {
    size_t *length = opaque;
    *length += strlen(text);
    fputs(text, stdout);
}

int main(int count, char **arguments) {
    size_t length = 0;
    void *small[100];
    for (int index = 0; index < 100; index++) {
        small[index] = malloc(100);
    }
    void *large = malloc(5 << 20), *of_arena = mallocx(3000, MALLOCX_ARENA(GET(unsigned, "arenas.create")) | MALLOCX_TCACHE_NONE);
    malloc_stats_print(write_out, &length, count > 1 ? arguments[1] : NULL);
    EXPECT(length > 100, "%zu", length);
    for (int index = 0; index < 100; index++) {
        free(small[index]);
    }
    free(large);
    free(of_arena);
    return 0;
}
