// The C interface: each function answers as the method does.
#include <gperftools/heap-profiler.h>
#include <gperftools/malloc_extension_c.h>
#include <gperftools/malloc_hook_c.h>
#include <gperftools/tcmalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                       \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

extern double MallocExtension_GetMemoryReleaseRate(void) __attribute__((weak));
extern void MallocExtension_SetMemoryReleaseRate(double) __attribute__((weak));
extern const char *vcm_version(void) __attribute__((weak));

static volatile int called;
static void hook(const void *block, size_t size) {
    (void)block;
    (void)size;
    called++;
}

int main(void) {
    char *block = tc_malloc(1000), text[2048];
    size_t value = 0;
    EXPECT(MallocExtension_VerifyAllMemory() && MallocExtension_VerifyMallocMemory(block));
    EXPECT(MallocExtension_VerifyNewMemory(block) && MallocExtension_VerifyArrayNewMemory(block));
    EXPECT(MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &value) && value >= 1000);
    EXPECT(!MallocExtension_GetNumericProperty("nonsense", &value));
    EXPECT(MallocExtension_SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", 8 << 20));
    EXPECT(!MallocExtension_SetNumericProperty("generic.heap_size", 1));
    EXPECT(MallocExtension_GetAllocatedSize(block) == tc_malloc_size(block));
    EXPECT(MallocExtension_GetEstimatedAllocatedSize(1000) >= tc_malloc_size(block));
    EXPECT(MallocExtension_GetOwnership(block) == MallocExtension_kOwned);
    EXPECT(MallocExtension_GetOwnership(text) == MallocExtension_kNotOwned);
    MallocExtension_GetStats(text, sizeof text);
    EXPECT(strlen(text) < sizeof text && strstr(text, "MALLOC:"));
    int blocks, histogram[kMallocExtensionHistogramSize];
    EXPECT(MallocExtension_MallocMemoryStats(&blocks, &value, histogram));
    MallocExtension_MarkThreadIdle();
    MallocExtension_MarkThreadBusy();
    MallocExtension_MarkThreadTemporarilyIdle();
    MallocExtension_ReleaseToSystem(4096);
    MallocExtension_ReleaseFreeMemory();
    (void)MallocExtension_GetThreadCacheSize();
    EXPECT(!IsHeapProfilerRunning());

    // Since 2.14, and no part of 2.10.
    double (*get_rate)(void) = MallocExtension_GetMemoryReleaseRate;
    EXPECT(get_rate || !vcm_version);
    if (get_rate) {
        EXPECT(get_rate() == 1.0);
        MallocExtension_SetMemoryReleaseRate(2.5);
        EXPECT(get_rate() == 2.5);
    }

    // The answer to adding a hook is what happens.
    int added = MallocHook_AddNewHook(hook);
    char *volatile other = tc_malloc(10);
    EXPECT((called > 0) == (added == 1));
    EXPECT(MallocHook_RemoveNewHook(hook) == added);
    tc_free(other);
    tc_free(block);
    return 0;
}
