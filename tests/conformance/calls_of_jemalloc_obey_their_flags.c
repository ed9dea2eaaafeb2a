// mallocx and its family: the size is what nallocx says, the flags' alignment and zeros are obeyed up to it,
// blocks may pass between them and malloc's family, and what cannot be had is null with ENOMEM.
// on: preload locked hardened static
#include "check.h"

#define ALIGN(power) (power)
#define ZERO 0x40
/* A cache of its own and the arena 3: nothing here. */
#define CACHE_AND_ARENA ((7 + 2) << 8 | (3 + 1) << 20)

static void *(*mallocx)(size_t, int);
static void *(*rallocx)(void *, size_t, int);
static size_t (*xallocx)(void *, size_t, size_t, int);
static size_t (*sallocx)(const void *, int);
static void (*dallocx)(void *, int);
static void (*sdallocx)(void *, size_t, int);
static size_t (*nallocx)(size_t, int);

static const size_t sizes[] = {1, 17, 100, 1000, 5000, 30000, 40000, 300 * KIB, 5 * MIB};
#define EACH_SIZE(size) \
    for (const size_t *size = sizes; size < sizes + sizeof sizes / sizeof *sizes; size++)

static void find_the_family(void) {
    mallocx = function("mallocx");
    rallocx = function("rallocx");
    xallocx = function("xallocx");
    sallocx = function("sallocx");
    dallocx = function("dallocx");
    sdallocx = function("sdallocx");
    nallocx = function("nallocx");
    EXPECT(dlsym(RTLD_DEFAULT, "mallctl") == NULL, "no mallctl: we are not jemalloc");
}

/* Memory that is not zero goes back to where the next block of its size comes from. */
static void leave_dirt(size_t bytes, int flags) {
    for (int i = 0; i < 4; i++) {
        void *block = mallocx(bytes, flags);
        memset(block, 0xa5, sallocx(block, flags));
        sdallocx(block, bytes, flags);
    }
}

static void blocks_are_as_large_and_aligned_as_was_said(void) {
    EACH_SIZE(size) {
        for (int power = 0; power <= 21; power++) {
            int flags = ALIGN(power) | CACHE_AND_ARENA;
            errno = 4711;
            void *block = mallocx(*size, flags);
            EXPECT(block != NULL && errno == 4711, "%zu bytes at 2^%d, and errno left alone", *size, power);
            EXPECT(is_aligned(block, (size_t)1 << power), "%p at a multiple of 2^%d", block, power);
            EXPECT(sallocx(block, 0) >= *size && sallocx(block, 0) >= nallocx(*size, flags),
                   "nallocx's %zu bytes, not %zu", nallocx(*size, flags), sallocx(block, 0));
            EXPECT(sallocx(block, 0) == malloc_usable_size(block), "one real size");
            memset(block, 1, nallocx(*size, flags));
            sdallocx(block, *size, flags);
        }
        for (int power = 0; power <= 16; power += 4) {
            leave_dirt(*size, ALIGN(power));
            unsigned char *block = mallocx(*size, ALIGN(power) | ZERO);
            EXPECT(is_zero(block, sallocx(block, 0)), "zeros in all of a block of %zu at 2^%d", *size, power);
            dallocx(block, ALIGN(power) | ZERO);
        }
    }
    void *least = mallocx(0, 0), *other = mallocx(0, 0);
    EXPECT(least != NULL && other != NULL && least != other, "a block of its own for size 0");
    sdallocx(least, 0, 0);
    dallocx(other, 0);
}

static void resized_blocks_keep_contents_and_obey_flags(void) {
    EACH_SIZE(from) {
        EACH_SIZE(to) {
            for (int power = 0; power <= 16; power += 4) {
                int flags = ALIGN(power) | ZERO;
                leave_dirt(*to, ALIGN(power));
                unsigned char *block = mallocx(*from, 0);
                size_t before = sallocx(block, 0), least = before < *to ? before : *to;
                fill(block, before, 3);
                errno = 4711;
                block = rallocx(block, *to, flags);
                size_t after = sallocx(block, flags);
                EXPECT(block != NULL && errno == 4711, "%zu bytes from %zu", *to, *from);
                EXPECT(is_aligned(block, (size_t)1 << power), "%p at a multiple of 2^%d", block, power);
                EXPECT(holds(block, least, 3), "contents kept from %zu to %zu bytes", *from, *to);
                EXPECT(after >= *to && (after <= before || is_zero(block + before, after - before)),
                       "zeros from byte %zu to %zu", before, after);
                sdallocx(block, *to, ALIGN(power));
            }
        }
    }
}

static void a_block_resized_where_it_lies_has_the_size_returned(void) {
    EACH_SIZE(from) {
        EACH_SIZE(to) {
            unsigned char *block = mallocx(*from, 0);
            size_t before = sallocx(block, 0);
            fill(block, before, 4);
            errno = 4711;
            size_t after = xallocx(block, *to, 2 * *to, ZERO);
            EXPECT(errno == 4711, "errno left alone");
            EXPECT(after == sallocx(block, 0), "the real size %zu, not %zu", sallocx(block, 0), after);
            EXPECT(after >= (before < *to ? before : *to), "no more bytes lost than asked for");
            EXPECT(holds(block, before < after ? before : after, 4), "contents kept");
            EXPECT(after <= before || is_zero(block + before, after - before), "zeros in what is new");
            memset(block, 5, after);
            sdallocx(block, after, 0);
        }
    }
    unsigned char *large = mallocx(8 * MIB, 0);
    EXPECT(xallocx(large, 1 * MIB, 0, 0) < 2 * MIB, "a large block to end earlier");
    EXPECT(xallocx(large, 2 * MIB, 0, 0) >= 2 * MIB, "it to end later where nobody took what it gave back");
    size_t unchanged = sallocx(large, 0);
    EXPECT(xallocx(large, SIZE_MAX - 100, 50, 0) == unchanged, "what cannot be to change nothing");
    EXPECT(xallocx(large, beyond_ptrdiff, 0, 0) == unchanged, "what cannot be to change nothing");
    EXPECT(xallocx(large, 4 * MIB, 0, ALIGN(62)) == unchanged, "no such alignment");
    EXPECT(xallocx(large, 1000, SIZE_MAX - 1000, 0) >= 1000, "extra bytes to be no must");
    dallocx(large, 0);
}

static void the_families_share_their_blocks(void) {
    EACH_SIZE(size) {
        free(mallocx(*size, 0));
        free(mallocx(*size, ALIGN(8) | ZERO));
        dallocx(malloc(*size), 0);
        sdallocx(malloc(*size), *size, 0);
        sdallocx(aligned_alloc(256, *size), *size, ALIGN(8));
        free(rallocx(calloc(1, *size), 777, 0));
        free(realloc(mallocx(*size, ALIGN(6)), 777));
        free(rallocx(NULL, *size, 0));
    }
}

static void what_cannot_be_had_is_null(void) {
    EXPECT_NO_MEMORY(mallocx(beyond_ptrdiff, 0));
    EXPECT_NO_MEMORY(mallocx(SIZE_MAX, ZERO));
    EXPECT_NO_MEMORY(mallocx((size_t)1 << 60, 0));
    EXPECT_NO_MEMORY(mallocx((size_t)1 << 60, ALIGN(12) | ZERO));
    EXPECT_NO_MEMORY(mallocx(100, ALIGN(62)));
    EXPECT_NO_MEMORY(mallocx(100, ALIGN(63) | ZERO));
    EACH_SIZE(size) {
        unsigned char *block = mallocx(*size, 0);
        fill(block, *size, 5);
        EXPECT_NO_MEMORY(rallocx(block, beyond_ptrdiff, 0));
        EXPECT_NO_MEMORY(rallocx(block, SIZE_MAX, ZERO));
        EXPECT_NO_MEMORY(rallocx(block, (size_t)1 << 60, ZERO));
        EXPECT_NO_MEMORY(rallocx(block, *size, ALIGN(62)));
        EXPECT(holds(block, *size, 5), "a failed rallocx to leave %zu bytes alone", *size);
        sdallocx(block, *size, 0);
    }
}

int main(void) {
    find_the_family();
    blocks_are_as_large_and_aligned_as_was_said();
    resized_blocks_keep_contents_and_obey_flags();
    a_block_resized_where_it_lies_has_the_size_returned();
    the_families_share_their_blocks();
    what_cannot_be_had_is_null();
    return 0;
}
