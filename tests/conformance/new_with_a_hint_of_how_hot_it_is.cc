// The forms of operator new that LLVM calls where a profile knows how hot a block will be: memory like any other, null or
// bad_alloc where there is none, and the program's own basic form where it has one.
// on: preload locked hardened static
// flags: -Wno-sized-deallocation -Wno-mismatched-new-delete -Wl,--unresolved-symbols=ignore-all
#include "check.h"
#include <initializer_list>
#include <new>

enum class __hot_cold_t : unsigned char;

// The compiler writes these into objects, by those names; no header declares them.
void *operator new(size_t, __hot_cold_t);
void *operator new[](size_t, __hot_cold_t);
void *operator new(size_t, const std::nothrow_t &, __hot_cold_t) noexcept;
void *operator new[](size_t, const std::nothrow_t &, __hot_cold_t) noexcept;
void *operator new(size_t, std::align_val_t, __hot_cold_t);
void *operator new[](size_t, std::align_val_t, __hot_cold_t);
void *operator new(size_t, std::align_val_t, const std::nothrow_t &, __hot_cold_t) noexcept;
void *operator new[](size_t, std::align_val_t, const std::nothrow_t &, __hot_cold_t) noexcept;

static int made, gone;

// Only this one is the program's: the unaligned forms with a hint end here, the aligned ones do not.
void *operator new(size_t bytes) {
    made++;
    if (void *block = malloc(bytes))
        return block;
    throw std::bad_alloc();
}

void operator delete(void *block) noexcept {
    gone++;
    free(block);
}

static void expect_block(void *block, size_t bytes, size_t alignment, const char *form) {
    EXPECT(block != nullptr && is_aligned(block, alignment), "%s to give %zu bytes aligned to %zu", form, bytes, alignment);
    EXPECT(malloc_usable_size(block) >= bytes, "%s: %zu usable bytes", form, bytes);
    memset(block, 1, bytes);
}

#define TAKE(call, alignment) (block = (call), expect_block(block, bytes, alignment, #call))

static void all_forms(size_t bytes, __hot_cold_t hint) {
    std::align_val_t wide{256};
    void *block;
    TAKE(::operator new(bytes, hint), 16);
    ::operator delete(block);
    TAKE(::operator new[](bytes, hint), 16);
    ::operator delete[](block);
    TAKE(::operator new(bytes, std::nothrow, hint), 16);
    ::operator delete(block);
    TAKE(::operator new[](bytes, std::nothrow, hint), 16);
    ::operator delete[](block);
    TAKE(::operator new(bytes, wide, hint), 256);
    ::operator delete(block, wide);
    TAKE(::operator new[](bytes, wide, hint), 256);
    ::operator delete[](block, wide);
    TAKE(::operator new(bytes, wide, std::nothrow, hint), 256);
    ::operator delete(block, wide);
    TAKE(::operator new[](bytes, wide, std::nothrow, hint), 256);
    ::operator delete[](block, wide);
}

int main() {
    int rounds = 0;
    for (size_t bytes = 1; bytes < MIB; bytes = bytes * 3 + 1)
        for (int hint : {0, 1, 128, 254, 255}) {
            all_forms(bytes, __hot_cold_t(hint));
            rounds++;
        }
    EXPECT(made == 4 * rounds && gone == 4 * rounds, "%d calls of the program's own forms, not %d and %d", 4 * rounds, made, gone);
    volatile size_t too_many = SIZE_MAX / 2;
    std::align_val_t wide{256};
    EXPECT(::operator new(too_many, std::nothrow, __hot_cold_t(0)) == nullptr, "null without memory");
    EXPECT(::operator new[](too_many, wide, std::nothrow, __hot_cold_t(255)) == nullptr, "null without memory");
    bool thrown = false;
    try {
        ::operator new(too_many, wide, __hot_cold_t(0));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    EXPECT(thrown, "bad_alloc without memory");
    return 0;
}
