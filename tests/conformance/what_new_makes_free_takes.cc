// C may free what the C++ library makes, because both are one heap. The hardened library stops this on purpose.
// on: glibc preload locked static
#include "check.h"
#include <new>

int main() {
    for (size_t bytes = 1; bytes < 2 * MIB; bytes *= 3) {
        void *block = ::operator new(bytes);
        memset(block, 1, bytes);
        free(block);
    }
    return 0;
}
