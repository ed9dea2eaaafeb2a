// The functions, declared once more as weak ones to see whether the program has jemalloc; in C++, where an exception specification must agree.
#define JEMALLOC_MANGLE
#include <jemalloc/jemalloc.h>
#include <malloc.h>

extern "C" JEMALLOC_ALLOCATOR JEMALLOC_RESTRICT_RETURN void JEMALLOC_NOTHROW *mallocx(size_t, int) JEMALLOC_ATTR(malloc)
    JEMALLOC_ALLOC_SIZE(1) __attribute__((__weak__));
extern "C" void JEMALLOC_NOTHROW dallocx(void *, int) __attribute__((__weak__));
extern "C" size_t JEMALLOC_NOTHROW sallocx(const void *, int) JEMALLOC_ATTR(pure) __attribute__((__weak__));
extern "C" int JEMALLOC_NOTHROW mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((__weak__));
extern "C" size_t JEMALLOC_NOTHROW malloc_usable_size(JEMALLOC_USABLE_SIZE_CONST void *) JEMALLOC_CXX_THROW __attribute__((__weak__));
// Aliases in the order of jemalloc's header.
extern "C" JEMALLOC_EXPORT void JEMALLOC_SYS_NOTHROW *je_calloc(size_t, size_t) JEMALLOC_CXX_THROW JEMALLOC_ATTR(malloc)
    JEMALLOC_ALLOC_SIZE2(1, 2);

int main() {
    if (mallocx == nullptr || dallocx == nullptr || sallocx == nullptr || mallctl == nullptr || malloc_usable_size == nullptr) {
        return 1;
    }
    void *block = je_mallocx(100, MALLOCX_ZERO), *other = je_calloc(3, 5);
    bool is_long = sallocx(block, 0) >= 100 && je_malloc_usable_size(other) >= 15;
    dallocx(block, 0);
    je_free(other);
    return is_long ? 0 : 2;
}
