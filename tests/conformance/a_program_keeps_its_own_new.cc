// A program that defines the basic new and delete links with the archive too, and all other forms go through its own.
// on: glibc preload locked hardened static
// flags: -Wno-sized-deallocation -Wno-mismatched-new-delete
#include "check.h"
#include <new>

static int made, gone;

void *operator new(size_t bytes) {
    made++;
    // Not what malloc gave: our own forms must never see it.
    char *block = static_cast<char *>(malloc(bytes + 16));
    if (block == nullptr)
        throw std::bad_alloc();
    return block + 16;
}

void operator delete(void *block) noexcept {
    gone++;
    if (block != nullptr)
        free(static_cast<char *>(block) - 16);
}

int main() {
    ::operator delete(::operator new(100));
    EXPECT(made == 1 && gone == 1, "the basic forms to be the program's, not %d and %d calls", made, gone);
    ::operator delete[](::operator new[](100));
    ::operator delete(::operator new(100, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](100, std::nothrow), std::nothrow);
    ::operator delete(::operator new(100), (size_t)100);
    ::operator delete[](::operator new[](100), (size_t)100);
    EXPECT(made == 6 && gone == 6, "the other forms to go there, not %d and %d calls", made, gone);
    // The aligned forms have a basic form of their own, which this program did not replace.
    ::operator delete(::operator new(100, std::align_val_t(64)), std::align_val_t(64));
    EXPECT(made == 6 && gone == 6, "aligned forms to stay the library's, not %d and %d calls", made, gone);
    return 0;
}
