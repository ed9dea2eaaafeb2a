// Blocks freed twice, pointers freed that are no blocks, and blocks freed by the wrong call. See damage.h.
#include "damage.h"
#include <new>
#include <thread>

static const Region NOWHERE = {nullptr, 0};

static void free_badly(void *block) {
    free(block);
    committed();
}

static void see_what_a_double_free_did(size_t bytes) {
    look_for_overlap(bytes, bytes > 64 * KIB ? 32 : 20000, NOWHERE, "overlap");
    go_on_working();
}

static void double_free_at_once() {
    void *block = malloc(64);
    free(block);
    free_badly(block);
    see_what_a_double_free_did(64);
}

static void double_free_large() {
    void *block = malloc(MIB);
    free(block);
    free_badly(block);
    see_what_a_double_free_did(MIB);
}

static void double_free_a_b_a() {
    void *one = malloc(64), *other = malloc(64);
    free(one);
    free(other);
    free_badly(one);
    see_what_a_double_free_did(64);
}

static void free_twice_after_5000_frees(size_t bytes) {
    void **block = outside<void *>(5001);
    for (int i = 0; i < 5001; i++)
        block[i] = malloc(bytes);
    for (int i = 0; i < 5001; i++)
        free(block[i]);
    free_badly(block[0]);
    see_what_a_double_free_did(bytes);
}

static void free_twice_by_another_thread(size_t bytes) {
    void *block = malloc(bytes);
    free(block);
    std::thread([=] { free_badly(block); }).join();
    see_what_a_double_free_did(bytes);
}

static void double_free_after_5000_frees() { free_twice_after_5000_frees(64); }
static void double_free_of_1000_bytes_after_5000_frees() { free_twice_after_5000_frees(1000); }
static void double_free_by_another_thread() { free_twice_by_another_thread(64); }
static void double_free_of_1000_bytes_by_another_thread() { free_twice_by_another_thread(1000); }

static void double_free_by_two_remote_threads() {
    void *block = malloc(64);
    std::thread([=] { free(block); }).join();
    std::thread([=] { free_badly(block); }).join();
    see_what_a_double_free_did(64);
}

static void double_free_after_reuse() {
    void *block = malloc(64);
    free(block);
    void *again = malloc(64);
    free_badly(block);
    void **fresh = outside<void *>(20000);
    for (int i = 0; i < 20000; i++) {
        fresh[i] = malloc(64);
        if (fresh[i] == again)
            outcome("overlap", "allocation %d is a block that is in use", i + 1);
    }
}

static void free_inside(size_t bytes, size_t offset) {
    void **block = outside<void *>(64);
    for (int i = 0; i < 64; i++)
        block[i] = memset(malloc(bytes), 0, bytes);
    char *inside = (char *)block[32] + offset;
    free_badly(inside);
    look_for_overlap(bytes, bytes > 64 * KIB ? 32 : 5000, {block[32], bytes}, "overlap");
    look_for_overlap(bytes / 2, 500, {block[32], bytes}, "overlap");
    go_on_working();
}

static void free_interior_small() { free_inside(256, 128); }
static void free_interior_large() { free_inside(MIB, 64 * KIB); }
static void free_misaligned() { free_inside(64, 1); }

static void free_foreign(void *address, size_t bytes) {
    free_badly(address);
    static const size_t SIZES[] = {16, 32, 64, 128, 512, 1024, 4096, 16384};
    for (size_t size : SIZES)
        look_for_overlap(size, 500, {(char *)address - 64, bytes + 64}, "foreign");
    go_on_working();
}

static void free_stack() {
    alignas(16) unsigned char array[512] = {};
    free_foreign(array + 64, 448);
}

static void free_global() { free_foreign(target + 64, sizeof target - 64); }
static void free_mapping() { free_foreign(outside<char>(MIB), MIB); }
static void free_text() { free_foreign((void *)(uintptr_t)&free_stack, 64); }
static void free_wild() { free_foreign((void *)0x123456789ab0, 64); }
static void free_low() { free_foreign((void *)0x10, 64); }

static void free_unmapped() {
    char *gone = outside<char>(MIB);
    munmap(gone, MIB);
    free_foreign(gone + 4096, 64);
}

static void realloc_foreign() {
    char *foreign = outside<char>(MIB) + 64;
    void *moved = realloc(foreign, 5000);
    committed();
    if (moved == nullptr)
        outcome("harmless", "realloc answered null");
    look_for_overlap(5000, 500, {foreign, MIB - 64}, "foreign");
}

static void realloc_freed_in_place() {
    void *block[10];
    for (int i = 0; i < 10; i++)
        block[i] = malloc(64);
    for (int i = 0; i < 10; i++)
        free(block[i]);
    void *kept = realloc(block[0], 60);
    committed();
    if (kept == nullptr)
        outcome("harmless", "realloc answered null");
    see_what_a_double_free_did(64);
}

static void realloc_freed() {
    void *block = malloc(64);
    free(block);
    void *moved = realloc(block, 5000);
    committed();
    if (moved == nullptr)
        outcome("harmless", "realloc answered null");
    see_what_a_double_free_did(64);
}

// Blocks after the ones that were handed out: heap memory, but no block that anybody has.
static void free_never_handed_out() {
    char *highest = nullptr;
    for (int i = 0; i < 40; i++)
        highest = std::max(highest, (char *)malloc(3072));
    free_badly(highest + 3 * 3072);
    look_for_overlap(3072, 2000, NOWHERE, "overlap");
    go_on_working();
}

static void sized(size_t bytes, size_t said) {
    void *block = ::operator new(bytes);
    ::operator delete(block, said);
    committed();
    look_for_overlap(bytes, bytes > 64 * KIB ? 32 : 5000, NOWHERE, "overlap");
    look_for_overlap(said, said > 64 * KIB ? 32 : 5000, NOWHERE, "overlap");
    go_on_working();
}

// Compilers call the sized form wherever they know the type.
static void sized_delete_interior() {
    // A cache that has seen the class takes the short way.
    ::operator delete(::operator new(512), (size_t)512);
    char *block = static_cast<char *>(::operator new(512));
    ::operator delete(block + 256, (size_t)256);
    committed();
    look_for_overlap(512, 5000, {block, 512}, "overlap");
    go_on_working();
}

static void sized_delete_twice() {
    void *blocks[400];
    for (void *&block : blocks)
        block = ::operator new(64);
    for (int i = 1; i < 400; i++)
        ::operator delete(blocks[i], (size_t)64);
    malloc_trim(0); // they are back in their spans
    ::operator delete(::operator new(64), (size_t)64);
    ::operator delete(blocks[399], (size_t)64);
    committed();
    see_what_a_double_free_did(64);
}

static void realloc_interior() {
    char *block = static_cast<char *>(malloc(500));
    char *moved = static_cast<char *>(realloc(block + 32, 400));
    committed();
    if (moved != nullptr)
        free(moved);
    look_for_overlap(500, 5000, {block, 500}, "overlap");
    go_on_working();
}

static void sized_delete_too_large() { sized(100, 500); }
static void sized_delete_too_small() { sized(500, 100); }
static void sized_delete_small_as_large() { sized(100, MIB); }
static void sized_delete_large_as_small() { sized(MIB, 100); }

static void aligned_block_deleted_as_unaligned() {
    void *block = ::operator new(100, std::align_val_t(4096));
    ::operator delete(block, (size_t)100);
    committed();
    look_for_overlap(100, 5000, NOWHERE, "overlap");
    go_on_working();
}

static void unaligned_block_deleted_as_aligned() {
    void *block = ::operator new(100);
    ::operator delete(block, (size_t)100, std::align_val_t(4096));
    committed();
    look_for_overlap(100, 5000, NOWHERE, "overlap");
    look_for_overlap(4096, 500, NOWHERE, "overlap");
    go_on_working();
}

static void malloc_then_delete() {
    ::operator delete(malloc(100));
    committed();
    see_what_a_double_free_did(100);
}

static void new_then_free() {
    free(::operator new(100));
    committed();
    see_what_a_double_free_did(100);
}

static void new_array_then_delete() {
    ::operator delete(::operator new[](100));
    committed();
    see_what_a_double_free_did(100);
}

#define CRIME(name) {#name, name}
static const Crime CRIMES[] = {
    CRIME(double_free_at_once), CRIME(double_free_large), CRIME(double_free_a_b_a),
    CRIME(double_free_after_5000_frees), CRIME(double_free_by_another_thread),
    CRIME(double_free_of_1000_bytes_after_5000_frees), CRIME(double_free_of_1000_bytes_by_another_thread),
    CRIME(double_free_by_two_remote_threads), CRIME(double_free_after_reuse), CRIME(free_interior_small),
    CRIME(free_interior_large), CRIME(free_misaligned), CRIME(free_stack), CRIME(free_global), CRIME(free_mapping),
    CRIME(free_text), CRIME(free_wild), CRIME(free_low), CRIME(free_unmapped), CRIME(free_never_handed_out),
    CRIME(realloc_foreign), CRIME(realloc_freed), CRIME(realloc_freed_in_place), CRIME(sized_delete_too_large), CRIME(sized_delete_interior),
    CRIME(sized_delete_twice), CRIME(realloc_interior), CRIME(sized_delete_too_small),
    CRIME(sized_delete_small_as_large), CRIME(sized_delete_large_as_small),
    CRIME(aligned_block_deleted_as_unaligned), CRIME(unaligned_block_deleted_as_aligned),
    CRIME(malloc_then_delete), CRIME(new_then_free), CRIME(new_array_then_delete),
};

int main(int count, char **arguments) { return commit(CRIMES, count, arguments); }
