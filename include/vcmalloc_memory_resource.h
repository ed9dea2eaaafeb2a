/* A std::pmr::memory_resource on vcmalloc, for C++17: containers of std::pmr get their memory from it.

       std::pmr::vector<int> numbers(vcmalloc::memory_resource());

   In a program that is linked with the library, or runs on it, malloc is vcmalloc's as well; what the resource adds is that
   a block goes back with its size, which saves the library the search for it. Any thread may use it at any time. */
#ifndef VCMALLOC_MEMORY_RESOURCE_H
#define VCMALLOC_MEMORY_RESOURCE_H

#include <cstddef>
#include <memory_resource>
#include <new>

/* Of jemalloc's calls with flags, which vcmalloc has: the logarithm of the alignment is the flag. */
extern "C" {
void *mallocx(std::size_t bytes, int flags);
void sdallocx(void *block, std::size_t bytes, int flags);
}

namespace vcmalloc {

class memory_resource_type final : public std::pmr::memory_resource {
    static int flags(std::size_t alignment) noexcept {
        int flags = 0;
        while ((std::size_t(1) << flags) < alignment)
            flags++;
        return flags;
    }

    /* mallocx leaves a size of zero undefined. */
    static std::size_t asked(std::size_t bytes) noexcept { return bytes == 0 ? 1 : bytes; }

    /* Throws std::bad_alloc; no new-handler is called. */
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        if (void *block = mallocx(asked(bytes), flags(alignment)))
            return block;
        throw std::bad_alloc();
    }

    void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
        sdallocx(block, asked(bytes), flags(alignment));
    }

    /* All are the one heap. */
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti)
        /* Where libraries hide their names, each has a resource of its own. */
        return this == &other || dynamic_cast<const memory_resource_type *>(&other) != nullptr;
#else
        return this == &other;
#endif
    }
};

/* The one that is never destroyed: containers with static storage may outlive everything else. */
inline std::pmr::memory_resource *memory_resource() {
    alignas(memory_resource_type) static unsigned char place[sizeof(memory_resource_type)];
    static std::pmr::memory_resource *const made = new (place) memory_resource_type;
    return made;
}

} // namespace vcmalloc

#endif
