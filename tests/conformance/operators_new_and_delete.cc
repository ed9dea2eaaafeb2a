// Every form of operator new and delete of C++17, 20 of them, gives aligned, writable memory and takes it
// back.
// on: glibc preload locked hardened static
#include "check.h"
#include <new>

static void expect_block(void *block, size_t bytes, size_t alignment, const char *form) {
    EXPECT(block != nullptr && is_aligned(block, alignment),
           "%s of %zu bytes aligned to %zu", form, bytes, alignment);
    EXPECT(malloc_usable_size(block) >= bytes, "%s: %zu usable bytes", form, bytes);
    memset(block, 1, bytes);
}

#define TAKE(call, alignment) (block = (call), expect_block(block, bytes, alignment, #call))

static void plain(size_t bytes) {
    void *block;
    TAKE(::operator new(bytes), 16);
    ::operator delete(block);
    TAKE(::operator new(bytes), 16);
    ::operator delete(block, bytes);
    TAKE(::operator new(bytes, std::nothrow), 16);
    ::operator delete(block, std::nothrow);
    TAKE(::operator new[](bytes), 16);
    ::operator delete[](block);
    TAKE(::operator new[](bytes), 16);
    ::operator delete[](block, bytes);
    TAKE(::operator new[](bytes, std::nothrow), 16);
    ::operator delete[](block, std::nothrow);
}

static void aligned(size_t bytes, size_t alignment) {
    void *block;
    std::align_val_t value{alignment};
    TAKE(::operator new(bytes, value), alignment);
    ::operator delete(block, value);
    TAKE(::operator new(bytes, value), alignment);
    ::operator delete(block, bytes, value);
    TAKE(::operator new(bytes, value, std::nothrow), alignment);
    ::operator delete(block, value, std::nothrow);
    TAKE(::operator new[](bytes, value), alignment);
    ::operator delete[](block, value);
    TAKE(::operator new[](bytes, value), alignment);
    ::operator delete[](block, bytes, value);
    TAKE(::operator new[](bytes, value, std::nothrow), alignment);
    ::operator delete[](block, value, std::nothrow);
}

int main() {
    for (size_t bytes = 0; bytes <= 20 * MIB; bytes = bytes * 5 / 4 + 1) {
        plain(bytes);
        for (size_t alignment = 1; alignment <= 64 * KIB; alignment *= 8)
            aligned(bytes, alignment);
    }
    void *one = ::operator new(0), *other = ::operator new(0);
    EXPECT(one != nullptr && other != nullptr && one != other, "operator new(0) to give unique pointers");
    ::operator delete(one, size_t(0));
    ::operator delete(other);
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete(nullptr, size_t(8));
    ::operator delete(nullptr, std::align_val_t{64});
    ::operator delete[](nullptr, size_t(8), std::align_val_t{64});
    return 0;
}
