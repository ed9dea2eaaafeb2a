// Short loads that use every system call an allocator makes. Null is allowed, wrong contents are not.
#include "../case.h"
#include <sys/syscall.h>

enum { ROUNDS = 3 };

static void small_blocks(void) {
    static struct Slot slot[SLOTS];
    work(slot, SLOTS, 1, 2000);
    free_all(slot, SLOTS);
}

static void zeroed_blocks(void) {
    for (int round = 0; round < ROUNDS; round++)
        for (size_t bytes = 100; bytes < 6 * MIB; bytes *= 5) {
            unsigned char *block = calloc(1, bytes);
            if (block == NULL)
                continue;
            EXPECT(is_zero(block, bytes), "%zu zeros", bytes);
            memset(block, 1, bytes);
            free(block);
        }
}

static void growing_block(void) {
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = 1000;
        unsigned char *block = malloc(bytes);
        if (block == NULL)
            continue;
        mark(block, bytes, 5);
        while (bytes < 8 * MIB) {
            unsigned char *moved = realloc(block, bytes * 3);
            EXPECT(is_marked(moved ? moved : block, bytes, bytes, 5), "realloc to keep %zu bytes", bytes);
            if (moved == NULL)
                break;
            block = moved;
            bytes *= 3;
            mark(block, bytes, 5);
        }
        block = realloc(block, 500);
        free(block);
    }
}

static void large_blocks(void) {
    static struct Slot slot[32];
    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 32; i++) {
            slot[i].bytes = (i + 1) * 100000;
            slot[i].block = malloc(slot[i].bytes);
            slot[i].seed = i;
            if (slot[i].block != NULL)
                mark(slot[i].block, slot[i].bytes, i);
        }
        free_all(slot, 32);
    }
}

static void aligned_blocks(void) {
    for (size_t alignment = 32; alignment <= 16 * MIB; alignment *= 4) {
        void *block = NULL;
        if (posix_memalign(&block, alignment, alignment / 2 + 1) == 0) {
            EXPECT(is_aligned(block, alignment), "alignment %zu", alignment);
            memset(block, 1, alignment / 2 + 1);
            free(block);
        }
    }
}

static void trimmed_blocks(void) {
    for (int round = 0; round < ROUNDS; round++) {
        small_blocks();
        malloc_trim(0);
        zeroed_blocks();
        malloc_trim(0);
    }
}

static void *work_in_thread(void *argument) {
    work_and_free((uintptr_t)argument, 300);
    return NULL;
}

static void threads(void) {
    pthread_t thread[4];
    int count = 0;
    while (count < 4 && pthread_create(&thread[count], NULL, work_in_thread, (void *)(uintptr_t)count) == 0)
        count++;
    while (count-- > 0)
        pthread_join(thread[count], NULL);
    malloc_trim(0);
}

static void children(void) {
    static struct Slot slot[SLOTS];
    work(slot, SLOTS, 1, 500);
    pid_t child = fork();
    if (child == 0) {
        work(slot, SLOTS, 2, 500);
        free_all(slot, SLOTS);
        malloc_trim(0);
        _exit(0);
    }
    free_all(slot, SLOTS);
    if (child > 0)
        expect_success(child, "a child");
}

static void many_small_blocks(void) {
    enum { COUNT = 40000 };
    static uintptr_t *block[COUNT];
    for (int i = 0; i < COUNT; i++)
        if ((block[i] = malloc(16 + i % 300)) != NULL)
            block[i][0] = (uintptr_t)&block[i];
    for (int i = 0; i < COUNT; i++) {
        EXPECT(block[i] == NULL || block[i][0] == (uintptr_t)&block[i], "block %d to be its own", i);
        free(block[i]);
    }
}

static void threads_run_out(void) {
    struct rlimit limit = {200 * MIB, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    threads();
    large_blocks();
    many_small_blocks();
}

static const struct Case CASES[] = {
    CASE(small_blocks), CASE(zeroed_blocks), CASE(growing_block), CASE(large_blocks), CASE(aligned_blocks),
    CASE(trimmed_blocks), CASE(threads), CASE(children), CASE(many_small_blocks), CASE(threads_run_out),
};

int main(int argc, char **argv) {
    syscall(SYS_getpgid, 0x7eed); /* from here on calls are counted, see inject.c */
    return RUN(CASES);
}
