// Code that was made at run time, and described to the unwinder of exceptions as such compilers do it, may allocate, and so may that unwinder.
// on: glibc preload locked
// flags: -lgcc_s

#include "check.h"
#include <sys/mman.h>
#include <unwind.h>

void __register_frame(void *);
void __deregister_frame(void *);

enum { CODE_BYTES = 4096, BLOCKS = 64 };

/* A common entry and one for `code`, with `rules` about the frame's base and the return address. */
static unsigned char *described(const void *code, const unsigned char *rules, size_t count) {
    unsigned char *table = malloc(64);
    memset(table, 0, 64);
    uint32_t *common = (uint32_t *)table, *entry = (uint32_t *)(table + 24);
    common[0] = 20;
    /* Version 1, no augmentation, units of 1 and -8 bytes, the return address in column 16. */
    memcpy(table + 8, (unsigned char[]){1, 0, 1, 0x78, 16}, 5);
    memcpy(table + 13, rules, count);
    entry[0] = 20;
    entry[1] = 28;
    uint64_t bytes = CODE_BYTES;
    memcpy(entry + 2, &code, 8);
    memcpy(entry + 4, &bytes, 8);
    return table;
}

static void allocate(void) {
    for (int block = 0; block < BLOCKS; block++) {
        char *volatile got = malloc(100);
        EXPECT(got, "a block");
        free(got);
    }
}

static _Unwind_Reason_Code count(struct _Unwind_Context *context, void *calls) {
    (void)context;
    ++*(int *)calls;
    return _URC_NO_REASON;
}

int main(void) {
#if __x86_64__
    /* Every block that comes to the slow path is a sample, with its stack. */
    int (*sample)(size_t) = (int (*)(size_t))dlsym(RTLD_DEFAULT, "vcm_profile_start");
    if (sample)
        EXPECT(sample(1) == 0, "a profile");
    /* sub rsp, 8; call rdi; add rsp, 8; ret */
    const unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3};
    unsigned char *page = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED, "a page for code");
    memcpy(page, code, sizeof code);

    /* As LuaJIT does it: no rules, because only throws pass there. */
    unsigned char *without = described(page, NULL, 0);
    __register_frame(without);
    ((void (*)(void (*)(void)))page)(allocate);
    __deregister_frame(without);
    free(without);

    /* With rules, and looked up: the unwinder allocates while it holds its lock. */
    const unsigned char rules[] = {0x0c, 7, 8, 0x90, 1};
    for (int round = 0; round < 20000; round++) {
        unsigned char *with = described(page, rules, sizeof rules);
        __register_frame(with);
        int calls = 0;
        _Unwind_Backtrace(count, &calls);
        EXPECT(calls >= 2, "main and what called it, not %d calls", calls);
        __deregister_frame(with);
        free(with);
    }
#endif
    return 0;
}
