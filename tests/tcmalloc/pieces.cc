// Parts of gperftools that programs link and seldom need: a system allocator of their own, stacks, the CPU profiler's
// switches where no profiler runs.
#include "expect.h"
#include <gperftools/malloc_extension.h>
#include <gperftools/malloc_hook.h>
#include <gperftools/stacktrace.h>

extern "C" int ProfilingIsEnabledForAllThreads() __attribute__((weak));

int main() {
    MallocExtension *extension = MallocExtension::instance();
    extension->SetSystemAllocator(extension->GetSystemAllocator());
    void *stack[16];
    int sizes[16];
    EXPECT(GetStackTrace(stack, 16, 0) <= 16, "no more frames than asked for");
    EXPECT(GetStackFrames(stack, sizes, 16, 0) <= 16, "no more frames than asked for");
    EXPECT(GetStackTraceWithContext(stack, 16, 1, nullptr) <= 16, "no more frames than asked for");
    EXPECT(GetStackFramesWithContext(stack, sizes, 16, 1, nullptr) <= 16, "no more frames than asked for");
    EXPECT(MallocHook::SetNewHook(nullptr) == nullptr, "there was no hook");
    EXPECT(!ProfilingIsEnabledForAllThreads || !ProfilingIsEnabledForAllThreads(), "nothing is profiled");
}
