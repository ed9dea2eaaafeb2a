// Fills 128 MiB, frees a part, and releases as an OSD does: the test counts the instructions of each release.
#include <gperftools/malloc_extension_c.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 128 << 10 };
static char *blocks[BLOCKS];

__attribute__((noinline)) void first_release(void) { MallocExtension_ReleaseFreeMemory(); }
__attribute__((noinline)) void later_releases(void) {
    for (int index = 0; index < 10; index++) {
        MallocExtension_ReleaseFreeMemory();
        free(malloc(100000));
    }
}
__attribute__((noinline)) void questions(void) {
    size_t heap, unmapped;
    for (int index = 0; index < 10; index++) {
        MallocExtension_GetNumericProperty("generic.heap_size", &heap);
        MallocExtension_GetNumericProperty("tcmalloc.pageheap_unmapped_bytes", &unmapped);
    }
}

int main(void) {
    for (int index = 0; index < BLOCKS; index++) {
        blocks[index] = malloc(1000);
        blocks[index][0] = 1;
    }
    for (int index = 0; index < BLOCKS; index += 10) {
        free(blocks[index]);
    }
    first_release();
    later_releases();
    questions();
    return 0;
}
