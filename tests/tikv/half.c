/* C code of a program of the crate: the header that its build gives, and the names with the prefix. */

#include <jemalloc/jemalloc.h>

void *half_takes(size_t bytes) {
    size_t width = 0, length = sizeof width;
    if (je_mallctl("arenas.quantum", &width, &length, NULL, 0) != 0 || width != 16) {
        return NULL;
    }
    return je_mallocx(bytes, MALLOCX_ALIGN(64) | MALLOCX_ZERO);
}
