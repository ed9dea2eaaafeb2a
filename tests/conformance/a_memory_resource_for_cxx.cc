// The std::pmr::memory_resource of vcmalloc_memory_resource.h: aligned memory of every size, given back with its size, equal to
// itself and to no other, std::bad_alloc where there is none, and containers on it.
// on: preload locked hardened static
// flags: -std=c++17 -Wl,--unresolved-symbols=ignore-all
#include "../../include/vcmalloc_memory_resource.h"
#include "check.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

static void blocks_are_aligned_and_go_back(std::pmr::memory_resource *resource) {
    for (size_t bytes = 0; bytes < 4 * MIB; bytes = bytes * 2 + 1)
        for (size_t alignment = 1; alignment <= 64 * KIB; alignment *= 2) {
            void *block = resource->allocate(bytes, alignment);
            EXPECT(block != nullptr && is_aligned(block, alignment), "%zu bytes aligned to %zu", bytes, alignment);
            EXPECT(malloc_usable_size(block) >= bytes, "%zu bytes of malloc's heap", bytes);
            memset(block, 1, bytes);
            resource->deallocate(block, bytes, alignment);
        }
}

static void containers_live_on_it(std::pmr::memory_resource *resource) {
    std::pmr::map<int, std::pmr::string> words(resource);
    for (int i = 0; i < 1000; i++)
        words.emplace(i, std::string(size_t(i), 'x'));
    std::pmr::vector<std::pmr::string> moved(resource);
    for (auto &[key, word] : words)
        moved.push_back(std::move(word));
    for (int i = 0; i < 1000; i++)
        EXPECT(moved[size_t(i)] == std::string(size_t(i), 'x').c_str(), "word %d as it was", i);
    EXPECT(words.get_allocator().resource() == resource, "the map's resource to be ours");
}

int main() {
    std::pmr::memory_resource *resource = vcmalloc::memory_resource();
    EXPECT(resource == vcmalloc::memory_resource(), "one resource");
    vcmalloc::memory_resource_type another;
    EXPECT(resource->is_equal(another) && another.is_equal(*resource), "all of the type to be equal");
    EXPECT(!resource->is_equal(*std::pmr::new_delete_resource()), "another's not to be equal");
    blocks_are_aligned_and_go_back(resource);
    containers_live_on_it(resource);
    bool thrown = false;
    volatile size_t too_many = PTRDIFF_MAX;
    try {
        (void)resource->allocate(too_many, 16);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    EXPECT(thrown, "bad_alloc without memory");
    return 0;
}
