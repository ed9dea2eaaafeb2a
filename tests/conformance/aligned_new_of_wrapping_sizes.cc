// A size that rounding up to the alignment would wrap to 0 throws bad_alloc. Not on libstdc++ 12, which wraps
// it.
// on: preload locked hardened static
#include "check.h"
#include <new>

int main() {
    for (size_t below = 0; below < 64; below++) {
        volatile size_t bytes = SIZE_MAX - below;
        bool thrown = false;
        try {
            void *block = ::operator new(bytes, std::align_val_t{64});
            ::operator delete(block, std::align_val_t{64});
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        EXPECT(thrown, "bad_alloc for %zu bytes aligned to 64", bytes);
        EXPECT(::operator new(bytes, std::align_val_t{64}, std::nothrow) == nullptr,
               "null for %zu bytes", bytes);
    }
    return 0;
}
