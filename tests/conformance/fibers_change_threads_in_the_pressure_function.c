// A fiber whose malloc calls the program's function for memory pressure may continue on another thread there: the malloc returns
// on that thread, errno of both threads is as it was, and the thread that it left allocates as any other.
// on: preload locked registered hardened static
#include "fiber.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { ROUNDS = 6, LIMIT_MIB = 8, MOST_BLOCKS = 400, BYTES = 100000, OF_FIBER = 1000, OF_THREAD = 2000 };

static struct fiber fiber;
static atomic_int turn, is_over;
static int rounds_done;
/* Atomic, since the C library's header has gcc assume that malloc calls no function of this file. */
static atomic_int calls_begun, calls_ended;
static unsigned char *block[MOST_BLOCKS];

/* Functions, since gcc takes the address of errno to be the same throughout another. */
__attribute__((noinline)) static void set_error(int error) {
    errno = error;
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static int error(void) {
    __asm__ volatile("" ::: "memory");
    return errno;
}

static int is_on_fiber(void) {
    unsigned char here;
    return (uintptr_t)fiber.stack_top - (uintptr_t)&here < FIBER_STACK;
}

static void under_pressure(size_t in_memory, size_t limit) {
    EXPECT(limit == LIMIT_MIB * MIB && in_memory != 0, "figures of this heap, not %zu of %zu", in_memory, limit);
    if (!is_on_fiber())
        return;
    calls_begun++;
    fiber_pause(&fiber);
    calls_ended++;
}

static void expect_whole_block(size_t bytes) {
    unsigned char *own = malloc(bytes);
    EXPECT(own != NULL, "%zu bytes beside a fiber that is in the function", bytes);
    fill(own, bytes, (unsigned)bytes);
    EXPECT(holds(own, bytes, (unsigned)bytes), "%zu bytes kept", bytes);
    free(own);
}

static void work(struct fiber *self) {
    for (; rounds_done < ROUNDS; rounds_done++) {
        int before = calls_ended, count = 0;
        while (calls_ended == before) {
            EXPECT(count < MOST_BLOCKS, "the function to be called before %d blocks", count);
            set_error(OF_FIBER + rounds_done);
            unsigned char *own = malloc(BYTES);
            EXPECT(own != NULL && error() == OF_FIBER + rounds_done, "malloc to keep errno, not to make it %d", error());
            fill(own, BYTES, (unsigned)(rounds_done + count));
            block[count++] = own;
        }
        for (int i = 0; i < count; i++) {
            EXPECT(holds(block[i], BYTES, (unsigned)(rounds_done + i)), "a block of the fiber kept");
            free(block[i]);
        }
    }
    atomic_store(&is_over, 1);
    for (;;)
        fiber_pause(self);
}

/* Two threads continue the fiber alternately; each leaves it where it pauses inside malloc. */
static void *take_turns(void *argument) {
    int own = (int)(uintptr_t)argument, mark = 0;
    for (;;) {
        while (atomic_load(&turn) != own)
            sched_yield();
        EXPECT(mark == 0 || error() == mark, "errno of a thread that the fiber left to stay %d, not to become %d", mark, error());
        if (!atomic_load(&is_over))
            fiber_continue(&fiber);
        mark = OF_THREAD + own + 2 * rounds_done;
        set_error(mark);
        for (size_t bytes = 16; bytes <= MIB; bytes *= 2)
            expect_whole_block(bytes);
        EXPECT(error() == mark, "malloc to keep errno");
        int over = atomic_load(&is_over);
        atomic_store(&turn, !own);
        if (over)
            return NULL;
    }
}

int main(void) {
    void (*on_pressure)(void (*)(size_t, size_t)) = (void (*)(void (*)(size_t, size_t)))function("vcm_on_pressure");
    int (*set)(const char *, const char *) = (int (*)(const char *, const char *))function("vcm_option_set");
    char limit[16];
    snprintf(limit, sizeof limit, "%dM", LIMIT_MIB);
    EXPECT(set("memory_limit", limit) == 0, "a limit");
    on_pressure(under_pressure);
    fiber_make(&fiber, work);
    pthread_t thread[2];
    for (uintptr_t i = 0; i < 2; i++)
        EXPECT(pthread_create(&thread[i], NULL, take_turns, (void *)i) == 0, "thread %zu", i);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    EXPECT(calls_begun >= ROUNDS && calls_ended == calls_begun, "%d of %d calls to return", calls_ended, calls_begun);
    return 0;
}
