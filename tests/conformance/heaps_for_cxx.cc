// vcmalloc_heap.h: a heap ends with its owner and moves, a scope serves new and malloc from it and ends in an exception, and
// containers of std::pmr live in it within its limit.
// on: preload hardened static
// flags: -std=c++17 -Wl,--unresolved-symbols=ignore-all
#include "../../include/vcmalloc_heap.h"
#include "check.h"
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

int main() {
    vcm_heap known;
    {
        vcmalloc::heap heap("first", 8 * MIB);
        known = heap.get();
        std::string *word = nullptr;
        try {
            vcmalloc::heap_scope scope(heap);
            word = new std::string(1000, 'x');
            EXPECT(vcm_heap_of(word) == known && vcm_heap_of(word->data()) == known, "new in the heap");
            vcmalloc::heap inner("inner");
            {
                vcmalloc::heap_scope deeper(inner);
                char *text = strdup("text");
                EXPECT(vcm_heap_of(text) == inner.get(), "the innermost scope");
                free(text);
            }
            throw std::runtime_error("out");
        } catch (const std::runtime_error &) {
            int *number = new int(1);
            EXPECT(vcm_heap_of(number) == VCM_HEAP_PROCESS, "no scope behind an exception");
            delete number;
        }
        delete word;
        std::pmr::map<int, std::pmr::string> words(heap.resource());
        for (int i = 0; i < 2000; i++)
            words.emplace(i, std::string(size_t(i) % 300, 'x'));
        EXPECT(heap.stats().live > 300 * KIB && heap.stats().bytes <= 8 * MIB, "containers in the heap");
        bool is_refused = false;
        std::pmr::vector<char> many(heap.resource());
        try {
            many.resize(9 * MIB);
        } catch (const std::bad_alloc &) {
            is_refused = true;
        }
        EXPECT(is_refused && heap.stats().refused > 0, "a limit that holds");
        vcmalloc::heap moved(std::move(heap));
        EXPECT(heap.get() == VCM_HEAP_NONE && moved.get() == known, "a heap that moved");
        words.clear();
    }
    struct vcm_heap_stats stats = {};
    stats.size = sizeof stats;
    EXPECT(vcm_heap_stats(known, &stats) == ENOENT, "an end with its owner");
    vcmalloc::heap a("a"), b("b");
    vcmalloc::heap_resource same(a.get());
    EXPECT(a.resource()->is_equal(same) && !a.resource()->is_equal(*b.resource()), "resources of one heap to be equal");
    return 0;
}
