// tcmalloc.h: the whole family under its second name, and the new mode.
#include "expect.h"
#include <cerrno>
#include <cstdint>
#include <gperftools/tcmalloc.h>
#include <initializer_list>
#include <malloc.h>
#include <new>

extern "C" void *__libc_malloc(std::size_t);
extern "C" void __libc_free(void *);
extern "C" void *__libc_memalign(std::size_t, std::size_t);

static void blocks() {
    void *block = tc_realloc(tc_malloc(10), 5000);
    EXPECT(tc_malloc_size(block) >= 5000 && malloc_usable_size(block) == tc_malloc_size(block), "one heap");
    tc_free(block);
    int *zeros = static_cast<int *>(tc_calloc(100, 4));
    EXPECT(zeros[0] == 0 && zeros[99] == 0, "zeros");
    tc_cfree(zeros);
    for (void *aligned : {tc_memalign(256, 10), tc_valloc(10), tc_pvalloc(10)}) {
        EXPECT(reinterpret_cast<std::uintptr_t>(aligned) % 256 == 0, "%p", aligned);
        tc_free(aligned);
    }
    void *aligned = nullptr;
    EXPECT(tc_posix_memalign(&aligned, 4096, 10) == 0 && aligned, "%p", aligned);
    EXPECT(tc_posix_memalign(&aligned, 3, 10) == EINVAL, "3 is no alignment");
    std::free(aligned);
    tc_free_sized(tc_malloc(100), 100);
    // Blocks of all names are of one heap.
    std::free(__libc_malloc(100));
    __libc_free(std::malloc(100));
    std::free(__libc_memalign(64, 100));
    (void)tc_mallinfo();
    (void)tc_mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

static void objects() {
    const std::align_val_t align{128};
    tc_delete(tc_new(10));
    tc_delete_sized(tc_new(10), 10);
    tc_delete_nothrow(tc_new_nothrow(10, std::nothrow), std::nothrow);
    tc_deletearray(tc_newarray(10));
    tc_deletearray_sized(tc_newarray(10), 10);
    tc_deletearray_nothrow(tc_newarray_nothrow(10, std::nothrow), std::nothrow);
    tc_delete_aligned(tc_new_aligned(10, align), align);
    tc_delete_sized_aligned(tc_new_aligned(10, align), 10, align);
    tc_delete_aligned_nothrow(tc_new_aligned_nothrow(10, align, std::nothrow), align, std::nothrow);
    tc_deletearray_aligned(tc_newarray_aligned(10, align), align);
    tc_deletearray_sized_aligned(tc_newarray_aligned(10, align), 10, align);
    tc_deletearray_aligned_nothrow(tc_newarray_aligned_nothrow(10, align, std::nothrow), align, std::nothrow);
    bool thrown = false;
    try {
        tc_new(PTRDIFF_MAX - 4096);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    EXPECT(thrown, "operator new throws");
}

static int calls;
static void handler() {
    if (++calls == 3) {
        throw std::bad_alloc();
    }
}

static void new_mode() {
    const std::size_t too_much = PTRDIFF_MAX - 4096;
    std::set_new_handler(handler);
    EXPECT(std::malloc(too_much) == nullptr && calls == 0, "%d calls", calls);
    EXPECT(tc_set_new_mode(1) == 0, "it was off");
    errno = 0;
    EXPECT(std::malloc(too_much) == nullptr && calls == 3 && errno == ENOMEM, "%d calls", calls);
    calls = 0;
    void *block = std::malloc(10);
    EXPECT(std::realloc(block, too_much) == nullptr && calls == 3, "%d calls", calls);
    calls = 0;
    EXPECT(std::calloc(1, too_much) == nullptr && calls == 3, "%d calls", calls);
    calls = 0;
    EXPECT(memalign(64, too_much) == nullptr && calls == 3, "%d calls", calls);
    calls = 0;
    EXPECT(tc_malloc_skip_new_handler(too_much) == nullptr && calls == 0, "%d calls", calls);
    EXPECT(tc_set_new_mode(0) == 1, "it was on");
    std::free(block);
}

int main() {
    int major = 0, minor = 0;
    const char *patch = nullptr;
    const char *version = tc_version(&major, &minor, &patch);
    EXPECT(std::strncmp(version, "gperftools 2.", 13) == 0, "%s", version);
    // Ours stands in for 2.10, whichever release the header is of.
    const int expected = is_ours() ? 10 : TC_VERSION_MINOR;
    EXPECT(major == TC_VERSION_MAJOR && minor == expected && patch, "%d.%d", major, minor);
    EXPECT(tc_version(nullptr, nullptr, nullptr) != nullptr, "without places to write to");
    blocks();
    objects();
    new_mode();
}
