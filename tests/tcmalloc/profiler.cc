// args: a prefix. Takes a heap profile as Ceph does: start, load, dump, stop. The test reads what was written.
#include "expect.h"
#include <gperftools/heap-profiler.h>
#include <gperftools/malloc_extension.h>
#include <string>
#include <vector>

static std::vector<void *> kept;

__attribute__((noinline)) void allocate_much() {
    for (int index = 0; index < 40000; index++) {
        kept.push_back(std::malloc(1500));
    }
    asm volatile("");
}

__attribute__((noinline)) void allocate_little() {
    for (int index = 0; index < 400; index++) {
        kept.push_back(std::malloc(300));
    }
    asm volatile("");
}

int main(int, char **arguments) {
    EXPECT(!IsHeapProfilerRunning(), "not yet");
    HeapProfilerDump("too early");
    HeapProfilerStart(arguments[1]);
    EXPECT(IsHeapProfilerRunning(), "started");
    allocate_much();
    allocate_little();
    HeapProfilerDump("because");
    char *text = GetHeapProfile();
    EXPECT(text && std::strncmp(text, "heap profile:", 13) == 0, "%.100s", text);
    EXPECT(std::strstr(text, "MAPPED_LIBRARIES"), "where the files are");
    std::free(text);
    for (void *block : kept) {
        std::free(block);
    }
    HeapProfilerDump("afterwards");
    HeapProfilerStop();
    EXPECT(!IsHeapProfilerRunning(), "stopped");
    HeapProfilerDump("too late");
}
