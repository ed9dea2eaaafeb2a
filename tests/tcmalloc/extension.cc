// Every virtual function of MallocExtension, called through the table that the headers of gperftools compile in.
#include "expect.h"
#include <cstdint>
#include <gperftools/malloc_extension.h>
#include <gperftools/tcmalloc.h>
#include <string>
#include <typeinfo>
#include <vector>

static MallocExtension *extension() { return MallocExtension::instance(); }

static void sizes() {
    void *block = std::malloc(100);
    EXPECT(extension()->GetAllocatedSize(block) >= 100, "%zu", extension()->GetAllocatedSize(block));
    EXPECT(extension()->GetAllocatedSize(block) == tc_malloc_size(block), "the same by two names");
    EXPECT(extension()->GetAllocatedSize(nullptr) == 0, "nothing is empty");
    for (std::size_t size : {1, 100, 4096, 5000, 300000, 5000000}) {
        void *other = std::malloc(size);
        std::size_t estimate = extension()->GetEstimatedAllocatedSize(size);
        EXPECT(estimate >= size, "%zu for %zu", estimate, size);
        // A sampled block of ours ends where the program's part of it ends.
        std::size_t truth = extension()->GetAllocatedSize(other);
        EXPECT(estimate == truth || (is_ours() && truth >= size && truth < estimate), "%zu, in truth %zu", estimate, truth);
        std::free(other);
    }
    std::free(block);
}

static void ownership() {
    int local = 0;
    static int global = 0;
    for (std::size_t size : {1, 5000, 3000000}) {
        void *block = std::malloc(size);
        EXPECT(extension()->GetOwnership(block) == MallocExtension::kOwned, "%zu", size);
        EXPECT(extension()->VerifyMallocMemory(block), "%zu", size);
        std::free(block);
    }
    EXPECT(extension()->GetOwnership(&local) == MallocExtension::kNotOwned, "a stack");
    EXPECT(extension()->GetOwnership(&global) == MallocExtension::kNotOwned, "a global");
    EXPECT(extension()->GetOwnership(nullptr) == MallocExtension::kNotOwned, "nothing");
    int *object = new int, *array = new int[5];
    EXPECT(extension()->VerifyNewMemory(object) && extension()->VerifyArrayNewMemory(array), "both are sound");
    EXPECT(extension()->VerifyAllMemory(), "all is sound");
    delete object;
    delete[] array;
}

static void stats() {
    static char buffer[1 << 17];
    for (int length : {1, 2, 10, 100, 1000, 2048, 1 << 16}) {
        std::memset(buffer, 'x', sizeof buffer);
        extension()->GetStats(buffer, length);
        std::size_t used = std::strlen(buffer);
        EXPECT(used < static_cast<std::size_t>(length), "%zu in %d", used, length);
        EXPECT(buffer[length] == 'x', "nothing behind %d", length);
    }
    extension()->GetStats(buffer, 2048);
    for (const char *line : {"Bytes in use by application", "Actual memory used (physical + swap)",
                             "Bytes released to OS (aka unmapped)", "Virtual address space used"}) {
        EXPECT(std::strstr(buffer, line), "'%s' in\n%s", line, buffer);
    }
    EXPECT(buffer[std::strlen(buffer) - 1] == '\n' || !is_ours(), "whole lines, not\n%s", buffer);
}

static void texts() {
    std::string text = "kept";
    extension()->GetHeapSample(&text);
    EXPECT(text.compare(0, 4, "kept") == 0 && text.size() > 4, "'%s'", text.c_str());
    std::string growth;
    extension()->GetHeapGrowthStacks(&growth);
    EXPECT(growth.find("heap profile:") != std::string::npos, "'%s'", growth.c_str());
    EXPECT(growth.find("@ growth") != std::string::npos, "'%s'", growth.c_str());
}

static void free_lists() {
    std::vector<void *> blocks;
    for (int index = 0; index < 1000; index++) {
        blocks.push_back(std::malloc(500));
    }
    for (void *block : blocks) {
        std::free(block);
    }
    std::vector<MallocExtension::FreeListInfo> lists(1);
    lists[0] = {7, 8, 9, "mine"};
    extension()->GetFreeListSizes(&lists);
    EXPECT(lists.size() > 10 && std::strcmp(lists[0].type, "mine") != 0, "%zu lists", lists.size());
    std::size_t free_bytes = 0;
    for (std::size_t index = 0; index < lists.size(); index++) {
        const auto &list = lists[index];
        EXPECT(std::strncmp(list.type, "tcmalloc.", 9) == 0, "%s", list.type);
        EXPECT(list.min_object_size <= list.max_object_size, "%zu %zu", list.min_object_size, list.max_object_size);
        if (list.min_object_size <= 500 && list.max_object_size >= 500 && list.max_object_size < 1000) {
            free_bytes += list.total_bytes_free;
        }
    }
    EXPECT(free_bytes >= 400 * 500, "%zu bytes for 1000 blocks of 500", free_bytes);
}

struct Found {
    void *block;
    bool in_use;
    std::size_t bytes;
};

static void take_range(void *argument, const base::MallocRange *range) {
    Found *found = static_cast<Found *>(argument);
    std::uintptr_t address = reinterpret_cast<std::uintptr_t>(found->block);
    found->bytes += range->length;
    if (range->address <= address && address - range->address < range->length) {
        found->in_use = range->type == base::MallocRange::INUSE && range->fraction > 0;
    }
    // The function may use the heap.
    std::free(std::malloc(100));
}

static void ranges() {
    // Larger than the blocks of which a process has the first ones guarded, outside the ranges.
    Found found = {std::malloc(2 << 20), false, 0};
    extension()->Ranges(&found, take_range);
    EXPECT(found.in_use, "the range of a block");
    std::size_t heap = 0;
    extension()->GetNumericProperty("generic.heap_size", &heap);
    EXPECT(found.bytes <= heap && found.bytes > (2 << 20), "%zu of %zu", found.bytes, heap);
    std::free(found.block);
}

static void memory_stats() {
    int blocks = -1, histogram[kMallocHistogramSize];
    std::size_t total = 1;
    EXPECT(extension()->MallocMemoryStats(&blocks, &total, histogram), "it answers");
    EXPECT(blocks >= 0, "%d", blocks);
}

static void threads() {
    extension()->MarkThreadIdle();
    extension()->MarkThreadTemporarilyIdle();
    extension()->MarkThreadBusy();
    void *block = std::malloc(10);
    EXPECT(extension()->GetThreadCacheSize() < (1 << 20), "%zu", extension()->GetThreadCacheSize());
    std::free(block);
}

static void releases() {
    EXPECT(extension()->GetMemoryReleaseRate() == 1.0, "%f", extension()->GetMemoryReleaseRate());
    for (double rate : {5.5, 0.0, 10.0, 0.25, 1.0}) {
        extension()->SetMemoryReleaseRate(rate);
        EXPECT(extension()->GetMemoryReleaseRate() == rate, "%f", extension()->GetMemoryReleaseRate());
    }
    extension()->ReleaseToSystem(1 << 20);
    extension()->ReleaseFreeMemory();
}

static void stack_traces() {
    int period = -1;
    void **traces = extension()->ReadStackTraces(&period);
    EXPECT(period >= 0, "%d", period);
    EXPECT(traces == nullptr || traces[0] == nullptr, "no samples are taken");
    delete[] traces;
    traces = extension()->ReadHeapGrowthStackTraces();
    delete[] traces;
}

// A program's own extension stands in for the library's, also for the C interface.
class Own : public MallocExtension {
  public:
    bool GetNumericProperty(const char *name, std::size_t *value) override {
        *value = 42;
        return std::strcmp(name, "own") == 0;
    }
};

class Pages : public SysAllocator {
  public:
    void *Alloc(std::size_t, std::size_t *, std::size_t) override { return nullptr; }
};

static void own_extension() {
    MallocExtension *before = extension();
    EXPECT(std::strstr(typeid(*before).name(), "MallocExtension") || !is_ours(), "%s", typeid(*before).name());
    Own own;
    MallocExtension::Register(&own);
    EXPECT(extension() == &own, "the registered one");
    EXPECT(dynamic_cast<Own *>(extension()) == &own, "its type is known");
    std::size_t value = 0;
    EXPECT(extension()->GetNumericProperty("own", &value) && value == 42, "%zu", value);
    MallocExtension::Register(before);
    EXPECT(extension() == before && dynamic_cast<Own *>(before) == nullptr, "the one before");
    delete new Own;
    SysAllocator *pages = new Pages;
    delete pages;
}

int main() {
    MallocExtension::Initialize();
    sizes();
    ownership();
    stats();
    texts();
    free_lists();
    ranges();
    memory_stats();
    threads();
    releases();
    stack_traces();
    own_extension();
}
