// A call that succeeds leaves errno alone, also when it had to ask the system for memory.
// on: glibc preload locked hardened static
#include "check.h"

#define KEEPS(call)                                               \
    do {                                                          \
        errno = 4711;                                             \
        void *got_ = (call);                                      \
        EXPECT(got_ != NULL, "%s to succeed", #call);             \
        EXPECT(errno == 4711, "%s to keep errno", #call);         \
        free(got_);                                               \
    } while (0)

int main(void) {
    for (size_t bytes = 1; bytes <= 256 * MIB; bytes *= 4) {
        KEEPS(malloc(bytes));
        KEEPS(calloc(1, bytes));
        KEEPS(realloc(malloc(bytes), bytes * 2));
        KEEPS(realloc(malloc(bytes), bytes / 2 + 1));
        KEEPS(reallocarray(NULL, bytes, 2));
        KEEPS(memalign(256, bytes));
        KEEPS(aligned_alloc(64, bytes));
        KEEPS(valloc(bytes));
        KEEPS(pvalloc(bytes));
    }
    return 0;
}
