// Samples are taken deep below functions that are so many that their tables fill pages of their own.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE(name) \
    __attribute__((noinline)) int name(int seed) { char text[40]; memset(text, seed, sizeof text); return text[seed & 15]; }
#define TEN(name) ONE(name##0) ONE(name##1) ONE(name##2) ONE(name##3) ONE(name##4) ONE(name##5) ONE(name##6) ONE(name##7) \
    ONE(name##8) ONE(name##9)
#define HUNDRED(name) TEN(name##0) TEN(name##1) TEN(name##2) TEN(name##3) TEN(name##4) TEN(name##5) TEN(name##6) TEN(name##7) \
    TEN(name##8) TEN(name##9)
HUNDRED(one) HUNDRED(two) HUNDRED(three) HUNDRED(four) HUNDRED(five) HUNDRED(six) HUNDRED(seven) HUNDRED(eight)

__attribute__((noinline)) static void *make(size_t bytes) {
    char *block = malloc(bytes);
    block[0] = 1;
    return block;
}

int main(void) {
    for (size_t i = 0; i < 20000; i++)
        free(make(100 + i % 3000));
    for (size_t i = 0; i < 20; i++)
        free(make(300000 + i));
    puts("done");
    return 0;
}
