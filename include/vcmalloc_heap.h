/* Heaps of tenants for C++17: a heap that ends with its owner, a scope in which malloc and new serve from it, and a
   std::pmr::memory_resource on it.

       vcmalloc::heap heap("orders", 64 << 20);
       {
           vcmalloc::heap_scope scope(heap);
           index = build_index();            // all of it is the heap's
       }
       std::pmr::vector<int> numbers(heap.resource());

   The functions below vcmalloc.h are needed: link the library, or run on it. Any thread may use a heap; a scope is its
   thread's. */
#ifndef VCMALLOC_HEAP_H
#define VCMALLOC_HEAP_H

#include "vcmalloc.h"
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory_resource>
#include <new>
#include <utility>

namespace vcmalloc {

class heap;

/* Allocates in one heap. Throws std::bad_alloc where there is no memory, or the limit is reached; no new-handler is called. */
class heap_resource final : public std::pmr::memory_resource {
  public:
    explicit heap_resource(vcm_heap heap) noexcept : heap_(heap) {}
    vcm_heap get() const noexcept { return heap_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *block = alignment <= 16 ? vcm_heap_malloc(heap_, bytes) : vcm_heap_aligned(heap_, alignment, bytes);
        if (block == nullptr)
            throw std::bad_alloc();
        return block;
    }

    void do_deallocate(void *block, std::size_t, std::size_t) override { std::free(block); }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti)
        auto same = dynamic_cast<const heap_resource *>(&other);
        return same != nullptr && same->heap_ == heap_;
#else
        return this == &other;
#endif
    }

    vcm_heap heap_;
};

/* A heap that ends with this object: by default all its blocks are freed with it. Throws std::bad_alloc where there is none. */
class heap {
  public:
    explicit heap(const char *name, std::size_t limit = 0, vcm_heap parent = VCM_HEAP_NONE)
        : heap(made(name, limit, parent)) {}
    heap(heap &&other) noexcept : resource_(other.release()), mode_(other.mode_) {}
    heap &operator=(heap &&other) noexcept {
        if (this != &other) {
            end();
            resource_ = heap_resource(other.release());
            mode_ = other.mode_;
        }
        return *this;
    }
    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;
    ~heap() { end(); }

    vcm_heap get() const noexcept { return resource_.get(); }
    std::pmr::memory_resource *resource() noexcept { return &resource_; }
    /* VCM_HEAP_FREE, VCM_HEAP_HAND_OVER or VCM_HEAP_DRAIN. */
    void at_end(int mode) noexcept { mode_ = mode; }
    bool set_limit(std::size_t bytes) noexcept { return vcm_heap_set_limit(get(), bytes) == 0; }
    bool reset() noexcept { return vcm_heap_reset(get()) == 0; }
    struct vcm_heap_stats stats() const noexcept {
        struct vcm_heap_stats stats = {};
        stats.size = sizeof stats;
        vcm_heap_stats(get(), &stats);
        return stats;
    }
    /* The caller ends the heap. */
    vcm_heap release() noexcept {
        vcm_heap before = get();
        resource_ = heap_resource(VCM_HEAP_NONE);
        return before;
    }

  private:
    explicit heap(vcm_heap made) noexcept : resource_(made) {}

    static vcm_heap made(const char *name, std::size_t limit, vcm_heap parent) {
        struct vcm_heap_options options = {};
        options.size = sizeof options;
        options.parent = parent;
        options.limit = limit;
        vcm_heap made = vcm_heap_new(name, &options);
        if (made == VCM_HEAP_NONE)
            throw std::bad_alloc();
        return made;
    }

    void end() noexcept {
        if (get() != VCM_HEAP_NONE)
            vcm_heap_destroy(get(), mode_);
    }

    heap_resource resource_;
    int mode_ = VCM_HEAP_FREE;
};

/* As long as it lives, malloc, new and their kind serve this thread from the heap. Scopes end in the order that they began. */
class heap_scope {
  public:
    explicit heap_scope(const heap &heap) noexcept : heap_scope(heap.get()) {}
    explicit heap_scope(vcm_heap heap) noexcept : before_(vcm_heap_push(heap)) {}
    heap_scope(const heap_scope &) = delete;
    heap_scope &operator=(const heap_scope &) = delete;
    ~heap_scope() {
        if (before_ != VCM_HEAP_NONE)
            vcm_heap_pop(before_);
    }

  private:
    vcm_heap before_;
};

} // namespace vcmalloc

#endif
