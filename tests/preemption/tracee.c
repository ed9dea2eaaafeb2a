/* Takes and gives back blocks while a tracer stops this thread inside the restartable sequences, moves it to
 * another CPU, and lets the helpers work on the caches meanwhile. A block that is handed out twice carries the
 * stamp of its first owner; a block that is lost stays counted as in use.
 *
 *   tracee ROUNDS     raises SIGUSR1 at the start of each round, where the tracer sets its breakpoint
 */
#include "../conformance/check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

enum { SLOTS = 48, STEPS = 600, HELPERS = 2, BURST = 3000 };
#define LIVE 0x11FEull
#define FREE 0xF4EEull

struct block {
    _Atomic uint64_t stamp;
    uint64_t owner;
};

static atomic_int stop;

/* Few classes, so that the helpers meet the traced thread in the same arrays. */
static const size_t sizes[] = {24, 24, 24, 200, 4096};

/* Each way in and out has sequences of its own, where the compiler put them in line. */
static void *(*operator_new)(size_t);
static void (*operator_delete)(void *);
static void (*free_sized)(void *, size_t);

static void *allocate(size_t bytes, unsigned random) {
    switch (random % 8) {
    case 0: return calloc(1, bytes);
    case 1: return realloc(NULL, bytes);
    case 2: return aligned_alloc(16, bytes);
    case 3: return realloc(malloc(bytes), bytes * 3 / 2);
    case 4: return operator_new != NULL ? operator_new(bytes) : malloc(bytes);
    default: return malloc(bytes);
    }
}

static void release(void *block, size_t bytes, unsigned random) {
    switch (random % 8) {
    case 0: EXPECT(realloc(block, 0) == NULL, "null for size 0"); break;
    case 1: operator_delete != NULL ? operator_delete(block) : free(block); break;
    case 2: free_sized != NULL ? free_sized(block, bytes) : free(block); break;
    default: free(block); break;
    }
}

static struct block *take(uint64_t owner, unsigned random) {
    struct block *block = allocate(sizes[random % 5], random >> 4);
    EXPECT(block != NULL, "a block");
    uint64_t before = atomic_exchange(&block->stamp, LIVE ^ (uintptr_t)block);
    EXPECT(before != (LIVE ^ (uintptr_t)block), "%p handed out once, but owner %llu has it already", (void *)block,
           (unsigned long long)block->owner);
    block->owner = owner;
    return block;
}

static void give(struct block *block, uint64_t owner, unsigned random) {
    if (block == NULL)
        return;
    EXPECT(block->owner == owner, "%p to be still ours, not of %llu", (void *)block,
           (unsigned long long)block->owner);
    uint64_t before = atomic_exchange(&block->stamp, FREE);
    EXPECT(before == (LIVE ^ (uintptr_t)block), "%p to be live when it is given back", (void *)block);
    release(block, malloc_usable_size(block), random);
}

static void work(struct block **slot, uint64_t owner, unsigned *random, int steps) {
    for (int i = 0; i < steps; i++) {
        int at = next_random(random) % SLOTS;
        give(slot[at], owner, *random >> 16);
        slot[at] = take(owner, *random >> 8);
    }
}

static void give_all(struct block **slot, uint64_t owner) {
    for (int i = 0; i < SLOTS; i++)
        give(slot[i], owner, i), slot[i] = NULL;
}

/* More than a cache holds, so that batches go in and out. */
static void burst(uint64_t owner, unsigned *random) {
    static struct block *block[BURST];
    for (int i = 0; i < BURST; i++)
        block[i] = take(owner, 2 + 8 * (next_random(random) % 4));
    for (int i = 0; i < BURST; i++)
        give(block[i], owner, i);
}

static void *help(void *argument) {
    uint64_t owner = (uintptr_t)argument;
    unsigned random = (unsigned)owner * 7919;
    struct block *slot[SLOTS] = {0};
    /* Each on a CPU of its own, so that the one the traced thread was stopped on is always worked on. */
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    sched_getaffinity(getpid(), sizeof allowed, &allowed);
    int skip = (int)owner % HELPERS;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && skip-- == 0)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 1)
        sched_setaffinity(0, sizeof one, &one);
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        work(slot, owner, &random, 64);
        if (random % 16 == 0)
            give_all(slot, owner);
        sched_yield();
    }
    give_all(slot, owner);
    return NULL;
}

static void run(int rounds) {
    pthread_t helper[HELPERS];
    struct block *slot[SLOTS] = {0};
    unsigned random = 4711;
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    atomic_store(&stop, 0);
    for (uintptr_t i = 0; i < HELPERS; i++)
        EXPECT(pthread_create(&helper[i], NULL, help, (void *)(i + 1)) == 0, "a helper");
    for (int round = 0; round < rounds; round++) {
        raise(SIGUSR1);
        if (round / 7 % 2 == 0)
            burst(99, &random);
        work(slot, 99, &random, STEPS);
        if (round % 3 == 0)
            give_all(slot, 99);
    }
    give_all(slot, 99);
    atomic_store(&stop, 1);
    for (int i = 0; i < HELPERS; i++)
        pthread_join(helper[i], NULL);
    sched_setaffinity(0, sizeof all, &all);
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 1;
    signal(SIGUSR1, SIG_IGN);
    *(void **)&operator_new = dlsym(RTLD_DEFAULT, "_Znwm");
    *(void **)&operator_delete = dlsym(RTLD_DEFAULT, "_ZdlPv");
    *(void **)&free_sized = dlsym(RTLD_DEFAULT, "free_sized");
    /* The first threads leave their control blocks with the C library; from then on the number is steady. */
    run(1);
    struct mallinfo2 before = mallinfo2();
    run(rounds);
    struct mallinfo2 after = mallinfo2();
    const char *on = getenv("CONFORMANCE_ON");
    if (on != NULL && strcmp(on, "vcmalloc") == 0)
        EXPECT(before.uordblks == after.uordblks,
               "%zu bytes in use again, not %zu: blocks were lost or doubled",
               before.uordblks, after.uordblks);
    return 0;
}
