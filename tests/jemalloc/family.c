// mallocx and its family, and what malloc's functions do otherwise than glibc's: as jemalloc's manual has it.
#include "expect.h"

static void sizes(void) {
    for (size_t bytes = 1; bytes < 5000000; bytes += bytes / 9 + 1) {
        for (int logarithm = 0; logarithm <= 16; logarithm += 4) {
            int flags = MALLOCX_LG_ALIGN(logarithm);
            void *block = mallocx(bytes, flags);
            EXPECT(block && sallocx(block, 0) == nallocx(bytes, flags), "%zu: %zu", bytes, sallocx(block, 0));
            EXPECT(malloc_usable_size(block) == sallocx(block, 0), "%zu", bytes);
            EXPECT(((uintptr_t)block & (((size_t)1 << logarithm) - 1)) == 0, "%p", block);
            sdallocx(block, bytes, flags);
        }
    }
    EXPECT(nallocx(1, MALLOCX_LG_ALIGN(63)) == 0 && mallocx(1, MALLOCX_LG_ALIGN(63)) == NULL, "too far apart");
    EXPECT(nallocx(SIZE_MAX, 0) == 0 && mallocx(SIZE_MAX, 0) == NULL, "too much");
    EXPECT(mallocx(1, MALLOCX_LG_ALIGN(63)) == NULL, "no address is so round");
}

static void resizing(void) {
    char *block = mallocx(100, 0);
    memset(block, 7, sallocx(block, 0));
    size_t before = sallocx(block, 0);
    block = rallocx(block, 20000, MALLOCX_ZERO);
    EXPECT(block[0] == 7 && block[before - 1] == 7, "what was there");
    for (size_t byte = before; byte < sallocx(block, 0); byte++) {
        EXPECT(block[byte] == 0, "byte %zu", byte);
    }
    block = rallocx(block, 50, 0);
    EXPECT(sallocx(block, 0) == nallocx(50, 0) && block[49] == 7, "it shrinks to what nallocx tells");
    block = rallocx(block, 3000, MALLOCX_ALIGN(1024));
    EXPECT(((uintptr_t)block & 1023) == 0 && block[49] == 7, "%p", block);
    EXPECT(rallocx(block, SIZE_MAX, 0) == NULL && block[49] == 7, "it stays as it was");
    dallocx(block, 0);

    block = mallocx(nallocx(1, 0), 0);
    EXPECT(xallocx(block, 1, 0, 0) == sallocx(block, 0), "it stays");
    EXPECT(xallocx(block, 100000, 0, 0) == nallocx(1, 0), "it cannot be so large where it lies");
    EXPECT(xallocx(block, 1, SIZE_MAX - 1, 0) == nallocx(1, 0), "nor so much larger");
    dallocx(block, 0);
    block = mallocx(4 << 20, 0);
    EXPECT(xallocx(block, 2 << 20, 0, 0) >= 2 << 20, "%zu", sallocx(block, 0));
    EXPECT(xallocx(block, 1, 0, 0) >= 2 << 20 || is_ours() || sallocx(block, 0) >= 16384, "no small block of a large one");
    dallocx(block, 0);
}

static void caches(void) {
    unsigned first = GET(unsigned, "tcache.create"), second = GET(unsigned, "tcache.create");
    EXPECT(first != second, "%u", first);
    void *block = mallocx(100, MALLOCX_TCACHE(first)), *other = mallocx(100, MALLOCX_TCACHE(second));
    EXPECT(block && other, "blocks by explicit caches");
    dallocx(block, MALLOCX_TCACHE(second));
    dallocx(other, MALLOCX_TCACHE(first));
    EXPECT(SET(unsigned, first, "tcache.flush") == 0 && SET(unsigned, second, "tcache.flush") == 0, "emptied");
    EXPECT(SET(unsigned, first, "tcache.destroy") == 0 && SET(unsigned, second, "tcache.destroy") == 0, "ended");
    EXPECT(DO("tcache.flush") == EINVAL, "it needs a number");
    // jemalloc writes to the length without asking whether there is one.
    EXPECT(!is_ours() || DO("tcache.create") == EINVAL, "no place for the number");
    unsigned short narrow = 0;
    size_t length = sizeof narrow;
    EXPECT(mallctl("tcache.create", &narrow, &length, NULL, 0) == EINVAL && length == 0, "%zu", length);

    EXPECT(GET(bool, "thread.tcache.enabled") && DO("thread.tcache.flush") == 0, "the thread's own");
    EXPECT(SET(bool, false, "thread.tcache.enabled") == 0 && !GET(bool, "thread.tcache.enabled"), "off");
    EXPECT(DO("thread.tcache.flush") == EFAULT, "there is none");
    free(malloc(100));
    EXPECT(SET(bool, true, "thread.tcache.enabled") == 0 && DO("thread.tcache.flush") == 0, "on");
    EXPECT(DO("thread.idle") == 0, "idle");
}

static void of_malloc(void) {
    void *block = malloc(0);
    EXPECT(block && malloc_usable_size(block) > 0, "nothing has room for something");
    free(block);
    EXPECT(malloc_usable_size(NULL) == 0, "no block has none");
    uint64_t zeros = GET(uint64_t, "stats.zero_reallocs");
    EXPECT(realloc(malloc(10), 0) == NULL, "realloc to nothing frees");
    EXPECT(GET(uint64_t, "stats.zero_reallocs") == zeros + 1, "and is counted");
    errno = 0;
    EXPECT(malloc(SIZE_MAX) == NULL && errno == ENOMEM, "%d", errno);
    EXPECT(calloc(SIZE_MAX / 2, 3) == NULL, "too many");
    void *out = NULL;
    EXPECT(posix_memalign(&out, 3, 10) == EINVAL && posix_memalign(&out, 0, 10) == EINVAL, "no alignments");
    block = aligned_alloc(4096, 100);
    EXPECT(((uintptr_t)block & 4095) == 0, "%p", block);
    free(block);
}

// Of whatever length the blocks were that were freed a moment ago: the size is the one that was told, and zeros reach up to it.
static void after_frees(void) {
    srand(7);
    for (int round = 0; round < 600; round++) {
        size_t before = 262145 + rand() % 3000000, bytes = 262145 + rand() % 3000000;
        int flags = round % 2 ? MALLOCX_ALIGN(64) : 0;
        char *block = mallocx(before, 0);
        memset(block, 0xee, sallocx(block, 0));
        dallocx(block, 0);
        block = mallocx(bytes, flags | MALLOCX_ZERO);
        size_t usable = sallocx(block, 0);
        EXPECT(usable == nallocx(bytes, flags), "%zu bytes: %zu, %zu", bytes, usable, nallocx(bytes, flags));
        for (size_t at = 0; at < usable; at += 8) {
            EXPECT(*(uint64_t *)(block + at) == 0, "byte %zu of %zu", at, usable);
        }
        dallocx(block, 0);
    }
    EXPECT(nallocx(PTRDIFF_MAX, 0) == 0 && nallocx(7ul << 60, 0) == 7ul << 60, "no longer block");
    EXPECT(nallocx(1, MALLOCX_LG_ALIGN(63)) == 0, "no such alignment");
}

int main(void) {
    after_frees();
    sizes();
    resizing();
    caches();
    of_malloc();
    return 0;
}
