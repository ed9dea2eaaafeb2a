/* Counts COST steps a call and takes GROWTH tenths of what is asked for. */
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static long steps;

void *malloc(size_t size) {
    steps += COST;
    return __libc_malloc(size * GROWTH / 10);
}
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void free(void *block) { __libc_free(block); }
long allocator_steps(void) { return steps; }
