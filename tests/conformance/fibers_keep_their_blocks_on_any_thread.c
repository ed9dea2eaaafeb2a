// Blocks of fibers, each of which continues on another thread after every pause, keep their contents, whichever thread
// allocated, resized or frees them.
// on: glibc preload locked registered hardened static
// args: 6 96 3000000
// args.hardened: 6 96 600000
// args.kernels: 4 64 300000
#include "fiber.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* Arguments: threads, fibers, calls of the allocator in all; 'report' to print what was done, or 'damage' to change a byte of
   one block, which must end the program. */
enum { MAX_THREADS = 64, MAX_FIBERS = 4096, BLOCKS = 40 };

struct block {
    unsigned char *bytes;
    size_t length, alignment;
    uint64_t seed;
};

struct worker {
    struct fiber fiber;
    unsigned number, random;
    uint64_t calls, handed, received, pauses;
    struct block block[BLOCKS];
};

static struct worker worker[MAX_FIBERS];
/* A fiber that no thread runs is in its place here; `last` has the thread that ran it. */
static _Atomic(struct worker *) ready[MAX_FIBERS];
static _Atomic unsigned last[MAX_FIBERS];
/* A block on its way to another fiber: a block of the heap that describes it. */
static _Atomic(struct block *) box[MAX_FIBERS];
static unsigned threads, fibers;
static uint64_t calls_each;
static int damages;
static atomic_uint finished;

static void fill_words(const struct block *block) {
    uint64_t word = block->seed;
    size_t at = 0;
    for (; at + 8 <= block->length; at += 8, word += 0x9e3779b97f4a7c15)
        memcpy(block->bytes + at, &word, 8);
    memcpy(block->bytes + at, &word, block->length - at);
}

/* Whether the first bytes are as they were filled. */
static int holds_words(const struct block *block, size_t length) {
    uint64_t word = block->seed, found, differs = 0;
    size_t at = 0;
    for (; at + 8 <= length; at += 8, word += 0x9e3779b97f4a7c15) {
        memcpy(&found, block->bytes + at, 8);
        differs |= found ^ word;
    }
    return differs == 0 && memcmp(block->bytes + at, &word, length - at) == 0;
}

/* A point at which a fiber pauses with a probability of 1/4. */
static void may_pause(struct worker *self) {
    if (next_random(&self->random) % 4 == 0) {
        self->pauses++;
        fiber_pause(&self->fiber);
    }
}

static size_t some_length(struct worker *self) {
    unsigned random = next_random(&self->random), most = 128;
    if (random % 4 == 0)
        most = random % 4096 == 0 ? 400000 : random % 64 == 0 ? 20000 : 1000;
    return next_random(&self->random) % most;
}

static void expect_kept(struct worker *self, const struct block *block, size_t length) {
    EXPECT(holds_words(block, length), "fiber %u to find its %zu bytes at %p", self->number, block->length,
           (void *)block->bytes);
}

static void allocate(struct worker *self, struct block *block) {
    size_t length = some_length(self);
    unsigned way = next_random(&self->random) % 8;
    unsigned char *bytes;
    block->alignment = 16;
    if (way == 0) {
        bytes = calloc(1, length);
    } else if (way == 1) {
        block->alignment = (size_t)16 << next_random(&self->random) % 9;
        bytes = aligned_alloc(block->alignment, length);
    } else {
        bytes = malloc(length);
    }
    self->calls++;
    EXPECT(bytes != NULL && is_aligned(bytes, block->alignment), "%zu bytes", length);
    may_pause(self);
    EXPECT(way != 0 || is_zero(bytes, length), "%zu cleared bytes", length);
    block->bytes = bytes;
    block->length = length;
    block->seed = ((uint64_t)next_random(&self->random) << 32) ^ (uintptr_t)bytes ^ self->number;
    fill_words(block);
}

static void release(struct worker *self, struct block *block) {
    expect_kept(self, block, block->length);
    may_pause(self);
    free(block->bytes);
    self->calls++;
    block->bytes = NULL;
}

static void resize(struct worker *self, struct block *block) {
    /* A length of 0 would free it. */
    size_t length = some_length(self) + 1, kept = length < block->length ? length : block->length;
    expect_kept(self, block, block->length);
    unsigned char *bytes = realloc(block->bytes, length);
    self->calls++;
    EXPECT(bytes != NULL, "%zu bytes instead of %zu", length, block->length);
    block->bytes = bytes;
    may_pause(self);
    expect_kept(self, block, kept);
    block->length = length;
    fill_words(block);
}

static void take_in(struct worker *self, struct block *parcel) {
    struct block block = *parcel;
    free(parcel);
    self->calls++;
    self->received++;
    may_pause(self);
    release(self, &block);
}

static void hand_over(struct worker *self, struct block *block) {
    struct block *parcel = malloc(sizeof *parcel);
    self->calls++;
    EXPECT(parcel != NULL, "a parcel");
    *parcel = *block;
    block->bytes = NULL;
    if (damages && self->number == 0 && parcel->length > 0 && self->calls > calls_each / 2) {
        damages = 0;
        parcel->bytes[parcel->length / 2] ^= 1;
    }
    may_pause(self);
    self->handed++;
    struct block *before = atomic_exchange(&box[next_random(&self->random) % fibers], parcel);
    if (before != NULL)
        take_in(self, before);
}

static void work(struct fiber *fiber) {
    struct worker *self = (struct worker *)fiber;
    while (self->calls < calls_each) {
        struct block *block = &self->block[next_random(&self->random) % BLOCKS], *parcel;
        unsigned choice = next_random(&self->random) % 8;
        if (choice == 0 && (parcel = atomic_exchange(&box[self->number], NULL)) != NULL)
            take_in(self, parcel);
        else if (block->bytes == NULL)
            allocate(self, block);
        else if (choice == 1)
            hand_over(self, block);
        else if (choice == 2)
            resize(self, block);
        else
            release(self, block);
        may_pause(self);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (self->block[i].bytes != NULL)
            release(self, &self->block[i]);
    atomic_fetch_add(&finished, 1);
    for (;;)
        fiber_pause(fiber);
}

/* A fiber that another thread ran last; null where there is none now. */
static struct worker *take(unsigned thread, unsigned *random) {
    unsigned start = next_random(random) % fibers;
    for (unsigned i = 0; i < fibers; i++) {
        unsigned number = (start + i) % fibers;
        if (atomic_load_explicit(&last[number], memory_order_relaxed) == thread)
            continue;
        struct worker *found = atomic_exchange(&ready[number], NULL);
        if (found != NULL)
            return found;
    }
    return NULL;
}

static void *run(void *argument) {
    unsigned thread = (unsigned)(uintptr_t)argument, random = thread * 2654435761u + 1;
    while (atomic_load(&finished) < fibers) {
        struct worker *next = take(thread, &random);
        if (next == NULL) {
            sched_yield();
            continue;
        }
        fiber_continue(&next->fiber);
        atomic_store_explicit(&last[next->number], thread, memory_order_relaxed);
        atomic_store(&ready[next->number], next);
    }
    return NULL;
}

static void expect_a_changed_byte_to_be_found(void) {
    for (size_t length = 1; length < 40; length++) {
        unsigned char bytes[40];
        struct block block = {.bytes = bytes, .length = length, .seed = 1234567 * length};
        for (size_t at = 0; at < length; at++) {
            fill_words(&block);
            EXPECT(holds_words(&block, length), "%zu bytes as they were filled", length);
            bytes[at] ^= 1;
            EXPECT(!holds_words(&block, length), "byte %zu of %zu to be found", at, length);
        }
    }
}

int main(int count, char **words) {
    EXPECT(count >= 4, "threads, fibers and calls");
    threads = (unsigned)atoi(words[1]);
    fibers = (unsigned)atoi(words[2]);
    uint64_t calls = strtoull(words[3], NULL, 10), handed = 0, received = 0, pauses = 0;
    EXPECT(threads > 1 && threads <= MAX_THREADS && fibers > threads && fibers <= MAX_FIBERS, "2 to %d threads, and more fibers",
           MAX_THREADS);
    calls_each = calls / fibers;
    damages = count > 4 && strcmp(words[4], "damage") == 0;
    expect_a_changed_byte_to_be_found();
    for (unsigned i = 0; i < fibers; i++) {
        worker[i].number = i;
        worker[i].random = i * 747796405u + 2891336453u;
        fiber_make(&worker[i].fiber, work);
        last[i] = MAX_THREADS;
        ready[i] = &worker[i];
    }
    pthread_t thread[MAX_THREADS];
    for (uintptr_t i = 0; i < threads; i++)
        EXPECT(pthread_create(&thread[i], NULL, run, (void *)i) == 0, "thread %zu", i);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    calls = 0;
    for (unsigned i = 0; i < fibers; i++) {
        struct block *parcel = atomic_exchange(&box[i], NULL);
        if (parcel != NULL) {
            expect_kept(&worker[i], parcel, parcel->length);
            free(parcel->bytes);
            free(parcel);
            worker[i].calls += 2;
            worker[i].received++;
        }
        calls += worker[i].calls;
        handed += worker[i].handed;
        received += worker[i].received;
        pauses += worker[i].pauses;
    }
    EXPECT(handed == received, "every block that was handed over to arrive");
    if (count > 4 && strcmp(words[4], "report") == 0)
        printf("%lu calls by %u fibers on %u threads, %lu blocks handed over, %lu continuations on another thread\n",
               (unsigned long)calls, fibers, threads, (unsigned long)handed, (unsigned long)pauses);
    return 0;
}
