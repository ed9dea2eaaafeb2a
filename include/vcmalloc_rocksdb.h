/* A RocksDB MemoryAllocator on a heap of its own: blocks of a block cache are that heap's, and gone when the cache is.

       auto heap = std::make_shared<vcmalloc::rocksdb_allocator>("cf-17");
       options.memory_allocator = heap;      // LRUCacheOptions
       ...
       heap->resident();                     // bytes, for a reservation in the block cache

   Any thread may use it. The heap ends with the allocator; blocks that are left are freed with it. */
#ifndef VCMALLOC_ROCKSDB_H
#define VCMALLOC_ROCKSDB_H

#include "vcmalloc_heap.h"
#include <malloc.h>
#include <rocksdb/memory_allocator.h>
#include <string>

namespace vcmalloc {

class rocksdb_allocator final : public rocksdb::MemoryAllocator {
  public:
    explicit rocksdb_allocator(const std::string &name, std::size_t limit = 0, vcm_heap parent = VCM_HEAP_NONE)
        : heap_(name.c_str(), limit, parent) {}

    const char *Name() const override { return "vcmalloc"; }

    /* Null where the limit is reached: RocksDB's caches take that for "does not fit". */
    void *Allocate(std::size_t bytes) override { return vcm_heap_malloc(heap_.get(), bytes); }
    void Deallocate(void *block) override { std::free(block); }
    std::size_t UsableSize(void *block, std::size_t) const override { return malloc_usable_size(block); }

    vcmalloc::heap &heap() noexcept { return heap_; }
    /* Bytes of the heap that are in memory: asks the system, some microseconds for each MiB. */
    std::size_t resident() const noexcept { return static_cast<std::size_t>(heap_.stats().resident); }

  private:
    vcmalloc::heap heap_;
};

} // namespace vcmalloc

#endif
