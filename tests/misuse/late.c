// A library whose destructor, which runs after the allocator's, frees a block twice; and a program that is linked with it.
#include <stdlib.h>

#ifdef LIBRARY
__attribute__((destructor)) static void end(void) {
    void *block = malloc(64), *others[20];
    for (int i = 0; i < 20; i++)
        others[i] = malloc(64);
    free(block);
    for (int i = 0; i < 20; i++)
        free(others[i]);
    free(block);
}

void late(void) {}
#else
void late(void);

int main(void) {
    late();
    return 0;
}
#endif
