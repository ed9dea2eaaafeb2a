/* Takes of the compiler's runtime what the archive must not bring along: 128-bit division, and numbers of 128 bits where there are any. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern long from_first(long), from_second(long);
#ifndef BESIDE_RUST
long from_first(long number) { return number + 1; }
long from_second(long number) { return number + 2; }
#endif

int main(int count, char **arguments) {
    unsigned __int128 large = (unsigned __int128)(count + 41) << 90;
    long double real = (long double)(count + 6) / 3;
    char *copy = strdup(arguments[0]);
    printf("%ld %ld %d\n", (long)(large / ((unsigned __int128)1 << 89)) + from_first(0) + from_second(0), (long)(real * 3), copy != NULL);
    free(copy);
    return 0;
}
