// 10,000 threads live at once and ask, with handlers and children that ask beside them: nothing hangs, and each thread's counts are exact.
#include "expect.h"
#include <stdatomic.h>

enum { THREADS = 10000, LEAST = 500, BLOCKS = 8, ROUNDS = 10, CHILDREN = 3, SIGNALS = 5000 };

static atomic_int begun, done, in_handlers;
// Gates: the main thread holds them until all may pass. To look again and again would take all CPUs from 10,000 threads.
static pthread_rwlock_t may_ask = PTHREAD_RWLOCK_INITIALIZER, may_end = PTHREAD_RWLOCK_INITIALIZER;
// Bytes that handlers took on this thread.
static __thread volatile uint64_t taken_by_handlers;
static __thread volatile uint64_t *allocated_at;

static void pass(pthread_rwlock_t *gate) {
    EXPECT(pthread_rwlock_rdlock(gate) == 0 && pthread_rwlock_unlock(gate) == 0, "a gate");
}

static void ask_epoch(bool in_handler) {
    uint64_t next = 1;
    size_t length = sizeof next;
    int error = mallctl("epoch", &next, &length, &next, sizeof next);
    EXPECT(error == 0 || (in_handler && error == EAGAIN), "%d", error);
}

static void handler(int signal) {
    (void)signal;
    int kept = errno;
    ask_epoch(true);
    uint64_t before = GET(uint64_t, "thread.allocated");
    EXPECT(!allocated_at || before == *allocated_at, "the count is whole");
    void *block = malloc(100);
    taken_by_handlers += malloc_usable_size(block);
    EXPECT(GET(uint64_t, "thread.allocated") - before == malloc_usable_size(block), "a handler's block counts once");
    free(block);
    atomic_fetch_add(&in_handlers, 1);
    errno = kept;
}

static void use_an_arena(void) {
    unsigned arena = GET(unsigned, "arenas.create");
    EXPECT(SET(unsigned, arena, "thread.arena") == 0 && GET(unsigned, "thread.arena") == arena, "%u", arena);
    void *block = malloc(1000);
    EXPECT(SET(unsigned, 0, "thread.arena") == 0, "back");
    unsigned found = 0;
    size_t length = sizeof found;
    EXPECT(mallctl("arenas.lookup", &found, &length, &block, sizeof block) == 0 && found == arena, "%u, not %u", found, arena);
    free(block);
    EXPECT(DO("arena.%u.destroy", arena) == 0, "%u", arena);
}

static void *asks(void *number) {
    size_t own = (size_t)number;
    uint64_t *taken = GET(uint64_t *, "thread.allocatedp"), *freed = GET(uint64_t *, "thread.deallocatedp");
    // A handler that came between two of these would count on one side.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    allocated_at = taken;
    uint64_t began = *taken, gave = *freed, sum = 0, returned = 0, of_handlers = taken_by_handlers;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    void *blocks[BLOCKS];
    for (int index = 0; index < BLOCKS; index++) {
        blocks[index] = malloc(own % 700 + (size_t)index * 100);
        sum += malloc_usable_size(blocks[index]);
    }
    atomic_fetch_add(&begun, 1);
    pass(&may_ask);
    for (int round = 0; round < ROUNDS; round++) {
        EXPECT(GET(unsigned, "thread.arena") < 4096, "an arena");
        EXPECT(GET(uint64_t, "thread.allocated") >= began + sum, "a thread's count only grows");
        EXPECT(GET(size_t, "stats.allocated") < (size_t)1 << 40, "a sum");
        EXPECT(GET(uint64_t, "epoch") > 0, "a picture");
        // jemalloc adds up the caches of all threads for each.
        if (own % 500 == 0) {
            ask_epoch(false);
        }
        if (is_ours() && own % 100 == 0) {
            pthread_sigmask(SIG_BLOCK, &all, &old);
            uint64_t before = *taken - taken_by_handlers, before_freed = *freed - taken_by_handlers;
            pthread_sigmask(SIG_SETMASK, &old, NULL);
            use_an_arena();
            pthread_sigmask(SIG_BLOCK, &all, &old);
            sum += *taken - taken_by_handlers - before;
            returned += *freed - taken_by_handlers - before_freed;
            pthread_sigmask(SIG_SETMASK, &old, NULL);
        }
    }
    for (int index = 0; index < BLOCKS; index++) {
        returned += malloc_usable_size(blocks[index]);
        free(blocks[index]);
    }
    atomic_fetch_add(&done, 1);
    pass(&may_end);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    uint64_t handled = taken_by_handlers - of_handlers;
    EXPECT(*taken - began == sum + handled, "thread %zu took %zu, not %zu", own, (size_t)(*taken - began), (size_t)(sum + handled));
    EXPECT(*freed - gave == returned + handled, "thread %zu freed %zu, not %zu", own, (size_t)(*freed - gave), (size_t)(returned + handled));
    return NULL;
}

static void child(void *unused) {
    (void)unused;
    ask_epoch(false);
    EXPECT(GET(unsigned, "thread.arena") == 0, "as in the parent");
    EXPECT(GET(unsigned, "stats.arenas.0.nthreads") <= 2, "others did not come along: %u", GET(unsigned, "stats.arenas.0.nthreads"));
    use_an_arena();
    free(malloc(10000));
}

static void children(void) {
    for (int round = 0; round < CHILDREN; round++) {
        in_child(child, NULL);
    }
}

// As many as the limits of the machine allow.
static int start(pthread_t *threads) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    int count = 0;
    while (count < THREADS) {
        int error = pthread_create(&threads[count], &small, asks, (void *)(size_t)count);
        if (error == EAGAIN && count >= LEAST) {
            break;
        }
        EXPECT(error == 0, "thread %d: %s", count, strerror(error));
        count++;
    }
    return count;
}

int main(void) {
    static pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_rwlock_wrlock(&may_ask);
    pthread_rwlock_wrlock(&may_end);
    int count = start(threads);
    while (atomic_load(&begun) < count) {
        usleep(1000);
    }
    next_epoch();
    if (is_ours()) {
        unsigned live = GET(unsigned, "stats.arenas.0.nthreads");
        EXPECT(live == (unsigned)count + 1, "%u, not %d", live, count + 1);
    }
    pthread_rwlock_unlock(&may_ask);
    // jemalloc waits for itself in handlers, and crashes where an arena ends while figures are read.
    if (is_ours()) {
        for (int number = 0; number < SIGNALS; number++) {
            pthread_kill(threads[number * 7919 % count], SIGUSR1);
            if (number % (SIGNALS / 4) == 0) {
                children();
            }
        }
    }
    while (atomic_load(&done) < count) {
        usleep(1000);
    }
    pthread_rwlock_unlock(&may_end);
    for (int index = 0; index < count; index++) {
        pthread_join(threads[index], NULL);
    }
    EXPECT(!is_ours() || atomic_load(&in_handlers) > 0, "handlers ran");
    next_epoch();
    EXPECT(!is_ours() || GET(unsigned, "stats.arenas.0.nthreads") == 1, "all are gone: %u", GET(unsigned, "stats.arenas.0.nthreads"));
    return 0;
}
