// The numeric properties: every name that gperftools 2.10 answers, what adds up to what, and what can be set.
#include "expect.h"
#include <gperftools/malloc_extension.h>
#include <thread>
#include <vector>

static std::size_t get(const char *name) {
    std::size_t value = 0xdead;
    EXPECT(MallocExtension::instance()->GetNumericProperty(name, &value), "%s is known", name);
    return value;
}

static bool set(const char *name, std::size_t value) {
    return MallocExtension::instance()->SetNumericProperty(name, value);
}

static void names() {
    for (const char *name :
         {"generic.current_allocated_bytes", "generic.heap_size", "generic.total_physical_bytes", "tcmalloc.slack_bytes",
          "tcmalloc.central_cache_free_bytes", "tcmalloc.transfer_cache_free_bytes", "tcmalloc.thread_cache_free_bytes",
          "tcmalloc.pageheap_free_bytes", "tcmalloc.pageheap_unmapped_bytes", "tcmalloc.pageheap_committed_bytes",
          "tcmalloc.pageheap_scavenge_count", "tcmalloc.pageheap_commit_count", "tcmalloc.pageheap_total_commit_bytes",
          "tcmalloc.pageheap_decommit_count", "tcmalloc.pageheap_total_decommit_bytes",
          "tcmalloc.pageheap_reserve_count", "tcmalloc.pageheap_total_reserve_bytes",
          "tcmalloc.current_total_thread_cache_bytes"}) {
        get(name);
        EXPECT(!set(name, 1), "%s can only be read", name);
    }
    std::size_t value = 77;
    EXPECT(!MallocExtension::instance()->GetNumericProperty("nonsense", &value) && value == 77, "%zu", value);
    EXPECT(!set("nonsense", 1), "an unknown name");
}

static void sums() {
    std::vector<void *> blocks;
    for (int index = 0; index < 20000; index++) {
        blocks.push_back(std::malloc(index % 7 * 300 + 16));
    }
    std::size_t heap = get("generic.heap_size"), free = get("tcmalloc.pageheap_free_bytes");
    std::size_t unmapped = get("tcmalloc.pageheap_unmapped_bytes"), live = get("generic.current_allocated_bytes");
    std::size_t cached = get("tcmalloc.central_cache_free_bytes") + get("tcmalloc.transfer_cache_free_bytes") +
                         get("tcmalloc.thread_cache_free_bytes");
    EXPECT(heap == live + free + unmapped + cached, "%zu = %zu + %zu + %zu + %zu", heap, live, free, unmapped, cached);
    EXPECT(get("tcmalloc.slack_bytes") == free + unmapped, "%zu", get("tcmalloc.slack_bytes"));
    EXPECT(get("tcmalloc.pageheap_committed_bytes") == heap - unmapped, "%zu", heap - unmapped);
    EXPECT(live >= 20000u * 900, "%zu", live);
    EXPECT(get("generic.total_physical_bytes") >= heap - unmapped, "with metadata");
    for (void *block : blocks) {
        std::free(block);
    }
}

// The figure that Ceph steers its caches by.
static std::size_t mapped() { return get("generic.heap_size") - get("tcmalloc.pageheap_unmapped_bytes"); }

static void follows_memory() {
    const std::size_t MIB = 1 << 20, before = mapped();
    EXPECT(before < 8 * MIB, "%zu in a new process", before);
    for (std::size_t size : {std::size_t(1000), 100000 * std::size_t(1), 4 * MIB}) {
        std::vector<char *> blocks;
        for (std::size_t bytes = 0; bytes < 64 * MIB; bytes += size) {
            blocks.push_back(static_cast<char *>(std::malloc(size)));
            std::memset(blocks.back(), 1, size);
        }
        std::size_t full = mapped();
        EXPECT(full >= 64 * MIB && full <= 110 * MIB, "%zu with 64 MiB in blocks of %zu", full, size);
        for (char *block : blocks) {
            std::free(block);
        }
        MallocExtension::instance()->ReleaseFreeMemory();
        std::size_t after = mapped();
        // gperftools' caches of threads hold 32 MiB.
        EXPECT(after <= before + 40 * MIB, "%zu, %zu, released %zu with blocks of %zu", before, full, after, size);
    }
}

static void cache_bound() {
    const char *bound = "tcmalloc.max_total_thread_cache_bytes";
    EXPECT(get(bound) == 32 << 20 || is_ours(), "%zu", get(bound));
    EXPECT(set(bound, 2 << 20) && get(bound) == 2 << 20, "%zu", get(bound));
    std::vector<std::thread> threads;
    for (int number = 0; number < 8; number++) {
        threads.emplace_back([] {
            std::vector<void *> blocks(20000);
            for (void *&block : blocks) {
                block = std::malloc(100);
            }
            for (void *block : blocks) {
                std::free(block);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    std::size_t cached = get("tcmalloc.current_total_thread_cache_bytes");
    EXPECT(cached <= 2 << 20 || !is_ours(), "%zu", cached);
    EXPECT(set(bound, 64 << 20) && get(bound) == 64 << 20, "%zu", get(bound));
}

static void switches() {
    const char *aggressive = "tcmalloc.aggressive_memory_decommit", *limit = "tcmalloc.heap_limit_mb";
    EXPECT(get(aggressive) == 0, "%zu", get(aggressive));
    EXPECT(set(aggressive, 1) && get(aggressive) == 1, "%zu", get(aggressive));
    EXPECT(set(aggressive, 0) && get(aggressive) == 0, "%zu", get(aggressive));
    EXPECT(get(limit) == 0, "%zu", get(limit));
    EXPECT(set(limit, 300) && get(limit) == 300, "%zu", get(limit));
    void *block = std::malloc(400 << 20);
    EXPECT(block == nullptr, "more than the limit");
    EXPECT(set(limit, 0) && get(limit) == 0, "%zu", get(limit));
    block = std::malloc(400 << 20);
    EXPECT(block != nullptr, "no limit");
    std::free(block);
}

// Newer than 2.10.
static void newer() {
    const char *least = "tcmalloc.min_per_thread_cache_bytes", *sampling = "tcmalloc.sample_parameter";
    std::size_t value = 0;
    bool is_known = MallocExtension::instance()->GetNumericProperty(least, &value);
    EXPECT(is_known || !is_ours(), "%s", least);
    if (is_known) {
        EXPECT(set(least, 64 << 10) && get(least) == 64 << 10, "%zu", get(least));
    }
    // 2.16 has it no more.
    is_known = MallocExtension::instance()->GetNumericProperty(sampling, &value);
    EXPECT(is_known || !is_ours(), "%s", sampling);
    if (is_known) {
        EXPECT(get(sampling) == 0 && set(sampling, 1 << 20) && get(sampling) == 1 << 20, "%zu", get(sampling));
        EXPECT(set(sampling, 0) && get(sampling) == 0, "%zu", get(sampling));
    }
}

int main() {
    follows_memory();
    newer();
    names();
    sums();
    cache_bound();
    switches();
}
