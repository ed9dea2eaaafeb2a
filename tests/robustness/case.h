/* What the programs of the robustness suite share. A program runs the case its first argument names; it exits with 0
 * if the case passed, with 77 if the machine cannot run it (and says why), else it says what it expected. */
#ifndef CASE_H
#define CASE_H

#include "../conformance/check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define SKIP(...)                   \
    do {                            \
        dprintf(2, __VA_ARGS__);    \
        _exit(77);                  \
    } while (0)

struct Case {
    const char *name;
    void (*run)(void);
};

static char **all_arguments;

__attribute__((unused)) static int run_case(const struct Case *cases, size_t count, int argc, char **argv) {
    all_arguments = argv;
    for (size_t i = 0; argc > 1 && i < count; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    for (size_t i = 0; i < count; i++)
        dprintf(2, "  %s\n", cases[i].name);
    return 2;
}

#define CASE(name) {#name, name}
#define RUN(cases) run_case(cases, sizeof(cases) / sizeof *(cases), argc, argv)

/* A number from the environment, so that the table can ask for more than the daily test. */
__attribute__((unused)) static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static inline double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Memory that does not come from the heap under test. */
__attribute__((unused)) static void *outside(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(memory != MAP_FAILED, "%zu bytes for the test itself", bytes);
    return memory;
}

/* Bytes of a block that carry its mark: all of a small one, some of every page of a large one. */
static inline size_t step_of(size_t bytes) { return bytes <= 512 ? 1 : 509; }

static void mark(unsigned char *block, size_t bytes, unsigned seed) {
    for (size_t at = 0; at < bytes; at += step_of(bytes))
        block[at] = pattern(at, seed);
}

/* Whether a block that was marked when it had `marked` bytes still carries the first `bytes` of its mark. */
static int is_marked(const unsigned char *block, size_t bytes, size_t marked, unsigned seed) {
    for (size_t at = 0; at < bytes; at += step_of(marked))
        if (block[at] != pattern(at, seed))
            return 0;
    return 1;
}

struct Slot {
    unsigned char *block;
    size_t bytes;
    unsigned seed;
};

/* Ordinary work with every kind of call; each block is checked before it is resized or freed. Null is allowed. */
static void work(struct Slot *slot, unsigned slots, unsigned seed, long steps) {
    unsigned random = seed * 2654435761u + 1;
    for (long step = 0; step < steps; step++) {
        struct Slot *one = &slot[next_random(&random) % slots];
        unsigned kind = next_random(&random);
        size_t bytes = kind % 200 == 0 ? kind % 3000000 : kind % 20 == 0 ? kind % 70000 : kind % 1000;
        if (one->block != NULL) {
            EXPECT(is_marked(one->block, one->bytes, one->bytes, one->seed), "%zu bytes to keep", one->bytes);
            if (kind & 1024) {
                unsigned char *moved = realloc(one->block, bytes + 1);
                if (moved == NULL)
                    continue;
                size_t kept = one->bytes < bytes ? one->bytes : bytes;
                EXPECT(is_marked(moved, kept, one->bytes, one->seed), "realloc to keep %zu bytes", kept);
                one->block = moved;
                one->bytes = bytes;
                mark(moved, bytes, one->seed);
                continue;
            }
            free(one->block);
        }
        one->bytes = bytes;
        one->seed = random;
        if (kind & 2048) {
            one->block = calloc(1, bytes);
            EXPECT(one->block == NULL || is_zero(one->block, bytes), "%zu zeros from calloc", bytes);
        } else if (kind & 4096) {
            size_t alignment = (size_t)16 << kind % 10;
            void *block = NULL;
            one->block = posix_memalign(&block, alignment, bytes) == 0 ? block : NULL;
            EXPECT(is_aligned(one->block, alignment), "alignment %zu", alignment);
        } else {
            one->block = malloc(bytes);
        }
        if (one->block != NULL)
            mark(one->block, bytes, one->seed);
    }
}

__attribute__((unused)) static void free_all(struct Slot *slot, unsigned slots) {
    for (unsigned i = 0; i < slots; i++) {
        if (slot[i].block != NULL)
            EXPECT(is_marked(slot[i].block, slot[i].bytes, slot[i].bytes, slot[i].seed), "%zu bytes to keep",
                   slot[i].bytes);
        free(slot[i].block);
        slot[i].block = NULL;
    }
}

enum { SLOTS = 256, SLOTS_ON_STACK = 80 };

/* The slots lie on the stack, because no memory could be had for them where calls are refused. */
__attribute__((unused)) static void work_and_free(unsigned seed, long steps) {
    struct Slot slot[SLOTS_ON_STACK] = {0};
    work(slot, SLOTS_ON_STACK, seed, steps);
    free_all(slot, SLOTS_ON_STACK);
}

/* Threads that work until they are told to stop. */
static atomic_int stop_working;

static void *keep_working(void *argument) {
    struct Slot slot[SLOTS_ON_STACK] = {0};
    for (unsigned round = 0; !atomic_load(&stop_working); round++)
        work(slot, SLOTS_ON_STACK, (unsigned)(uintptr_t)argument + round, 200);
    free_all(slot, SLOTS_ON_STACK);
    return NULL;
}

__attribute__((unused)) static void start_workers(pthread_t *thread, int count) {
    atomic_store(&stop_working, 0);
    for (int i = 0; i < count; i++)
        EXPECT(pthread_create(&thread[i], NULL, keep_working, (void *)(uintptr_t)(i + 1)) == 0, "thread %d", i);
}

__attribute__((unused)) static void stop_workers(pthread_t *thread, int count) {
    atomic_store(&stop_working, 1);
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
}

__attribute__((unused)) static void expect_success(pid_t child, const char *what) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        EXPECT(errno == EINTR, "to wait for %s", what);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s to succeed, not status %x", what, status);
}

#endif
