// A program with its own basic operator new and delete: the array, nothrow and sized forms must go through them, as
// the standard says and the C++ library does.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <unistd.h>

alignas(16) static unsigned char pool[1 << 20];
static size_t used, news, deletes;

void *operator new(size_t bytes) {
    news++;
    void *block = pool + used;
    used += (bytes + 15) & ~size_t(15);
    return block;
}

void operator delete(void *block) noexcept { deletes += block != nullptr; }

// Aligned blocks go another way.
static size_t aligned_news, aligned_deletes;

void *operator new(size_t bytes, std::align_val_t align) {
    aligned_news++;
    if (bytes > sizeof pool)
        throw std::bad_alloc();
    return aligned_alloc(size_t(align), bytes);
}

void operator delete(void *block, std::align_val_t) noexcept {
    aligned_deletes += block != nullptr;
    free(block);
}

static void expect(bool condition, const char *what) {
    if (!condition) {
        dprintf(2, "expected %s (%zu news, %zu deletes)\n", what, news, deletes);
        _exit(1);
    }
}

int main() {
    size_t before = news;
    void *array = ::operator new[](100);
    expect(news == before + 1, "new[] to call the program's new");
    void *nothrow = ::operator new(100, std::nothrow);
    expect(news == before + 2, "nothrow new to call the program's new");
    void *both = ::operator new[](100, std::nothrow);
    expect(news == before + 3, "nothrow new[] to call the program's new");
    size_t freed = deletes;
    ::operator delete[](array);
    expect(deletes == freed + 1, "delete[] to call the program's delete");
    ::operator delete(nothrow, size_t(100));
    expect(deletes == freed + 2, "sized delete to call the program's delete");
    ::operator delete[](both, size_t(100));
    expect(deletes == freed + 3, "sized delete[] to call the program's delete");
    ::operator delete(::operator new(10), std::nothrow);
    expect(deletes == freed + 4, "nothrow delete to call the program's delete");

    using Wide = std::align_val_t;
    ::operator delete[](::operator new[](128, Wide(64)), size_t(128), Wide(64));
    ::operator delete(::operator new(128, Wide(64), std::nothrow), Wide(64), std::nothrow);
    ::operator delete[](::operator new[](128, Wide(64), std::nothrow), Wide(64));
    expect(aligned_news == 3 && aligned_deletes == 3, "every aligned form to call the program's");
    expect(::operator new(sizeof pool + 1, Wide(64), std::nothrow) == nullptr, "what it throws to be caught");
    bool caught = false;
    try {
        ::operator new[](sizeof pool + 1, Wide(64));
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    expect(caught, "what it throws to pass through new[]");
    return 0;
}
