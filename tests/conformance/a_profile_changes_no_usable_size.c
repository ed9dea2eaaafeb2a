// A block has as many usable bytes as without a profile, whether or not it is a sample of one, from malloc until it is free: when
// the profile stops, when the block is resized to less, when its heap hands it over; and malloc_usable_size keeps errno.
// on: preload locked hardened static
#include "check.h"
#include "heaps.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

enum { BLOCKS = 5000, THREADS = 8, ZERO = 0x40 };

static int (*start)(size_t);
static void (*stop)(void);
static void *(*rallocx)(void *, size_t, int);
static void *(*mallocx)(size_t, int);
static size_t (*nallocx)(size_t, int);
static void (*sdallocx)(void *, size_t, int);

static unsigned char *blocks[BLOCKS];

/* Memory that is not zero goes back to where the next blocks come from. */
static void leave_dirt(size_t bytes) {
    for (int i = 0; i < 256; i++)
        memset(blocks[i] = malloc(bytes), 0xa5, bytes);
    for (int i = 0; i < 256; i++)
        free(blocks[i]);
}

/* nallocx foretells them; a guarded block has the bytes that were asked for. */
static void sizes_are_those_of_blocks_without_a_profile(void) {
    static const size_t bytes[] = {1, 100, 1003, 5000, 16384, 20000, 33000, 100000, 200000, 256 * KIB};
    static const size_t aligns[] = {16, 64, 4096, 16384, 65536};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        for (size_t j = 0; j < sizeof aligns / sizeof *aligns; j++) {
            size_t told = nallocx(bytes[i], __builtin_ctzl(aligns[j]));
            start(1);
            for (int k = 0; k < 4; k++) {
                void *block;
                posix_memalign(&block, aligns[j], bytes[i]);
                size_t usable = malloc_usable_size(block);
                EXPECT(usable == told || usable == bytes[i], "%zu usable bytes of %zu at %zu, not %zu", told, bytes[i],
                       aligns[j], usable);
                /* A sized free may name the one or the other. */
                sdallocx(block, k & 1 ? bytes[i] : usable, __builtin_ctzl(aligns[j]));
            }
            stop();
        }
}

static void what_is_counted_at_malloc_is_counted_at_free(void) {
    size_t counted = 0;
    start(65536);
    for (int i = 0; i < BLOCKS; i++)
        counted += malloc_usable_size(blocks[i] = malloc(1003));
    stop();
    for (int i = 0; i < BLOCKS; i++) {
        counted -= malloc_usable_size(blocks[i]);
        free(blocks[i]);
    }
    EXPECT(counted == 0, "as many bytes at free as at malloc, not %zd more", counted);
}

static void a_sample_that_is_resized_to_less_is_a_sample_still(void) {
    start(1);
    for (int i = 0; i < 100; i++) {
        unsigned char *block = malloc(40000);
        size_t usable = malloc_usable_size(block);
        fill(block, usable, 7);
        block = realloc(block, 39000);
        EXPECT(malloc_usable_size(block) < 39000 + 39000 / 4, "the bytes of its class, not %zu", malloc_usable_size(block));
        EXPECT(holds(block, 39000, 7), "the contents stay");
        /* The run of a sample is longer than its class: what it is to hold is told again. */
        block = realloc(block, 48000);
        usable = malloc_usable_size(block);
        EXPECT(usable >= 48000, "the bytes that were asked for, not %zu", usable);
        fill(block, usable, 8);
        block = realloc(block, 300 * KIB);
        EXPECT(holds(block, usable, 8), "all bytes that were usable come along");
        free(block);
    }
    stop();
}

static void what_is_new_is_zero_after_the_profile_stopped(void) {
    start(1);
    leave_dirt(16000);
    for (int i = 0; i < 10; i++) {
        start(1);
        unsigned char *block = mallocx(1000, ZERO);
        size_t usable = malloc_usable_size(block);
        stop();
        block = rallocx(block, 12000, ZERO);
        for (size_t k = usable; k < 12000; k++)
            EXPECT(block[k] == 0, "byte %zu to be zero", k);
        free(block);
    }
}

static void a_block_that_is_handed_over_keeps_all_its_bytes(void) {
    start(1);
    vcm_heap heap = heap_below(VCM_HEAP_NONE, 0);
    size_t usable[50];
    for (int i = 0; i < 50; i++) {
        blocks[i] = heaps.malloc(heap, 1003);
        fill(blocks[i], usable[i] = malloc_usable_size(blocks[i]), (unsigned)i);
    }
    EXPECT(!heaps.destroy(heap, VCM_HEAP_HAND_OVER), "the heap to hand its blocks over");
    for (int i = 0; i < 50; i++) {
        EXPECT(malloc_usable_size(blocks[i]) == usable[i], "%zu usable bytes", usable[i]);
        blocks[i] = realloc(blocks[i], usable[i] + 20000);
        EXPECT(holds(blocks[i], usable[i], (unsigned)i), "all bytes that were usable come along");
        free(blocks[i]);
    }
    stop();
}

static void handle(int signal) {
    (void)signal;
}

static void *ask(void *unused) {
    (void)unused;
    for (time_t until = time(NULL) + 2; time(NULL) < until;)
        for (int i = 0; i < 200; i++) {
            void *block = malloc(1003);
            errno = 0;
            malloc_usable_size(block);
            EXPECT(errno == 0, "malloc_usable_size keeps errno");
            free(block);
        }
    return NULL;
}

static void usable_sizes_keep_errno_among_threads_and_signals(void) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    start(1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, ask, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    stop();
}

int main(void) {
    find_heaps();
    start = function("vcm_profile_start");
    stop = function("vcm_profile_stop");
    mallocx = function("mallocx");
    rallocx = function("rallocx");
    nallocx = function("nallocx");
    sdallocx = function("sdallocx");
    sizes_are_those_of_blocks_without_a_profile();
    what_is_counted_at_malloc_is_counted_at_free();
    a_sample_that_is_resized_to_less_is_a_sample_still();
    what_is_new_is_zero_after_the_profile_stopped();
    a_block_that_is_handed_over_keeps_all_its_bytes();
    usable_sizes_keep_errno_among_threads_and_signals();
    return 0;
}
