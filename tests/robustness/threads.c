// Threads that come, go, and are many; what runs before main, after main and when a thread ends.
#include "case.h"
#include <malloc.h>

static void *start_of_program;

__attribute__((constructor(101))) static void allocate_before_main(void) {
    start_of_program = calloc(1, 100000);
    work_and_free(7, 500);
}

static void *work_a_little(void *argument) {
    work_and_free((uintptr_t)argument, 200);
    return malloc(100);
}

static void run_threads(int count, size_t stack) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    EXPECT(stack == 0 || pthread_attr_setstacksize(&attributes, stack) == 0, "a stack of %zu bytes", stack);
    pthread_t *thread = outside(count * sizeof *thread);
    for (int i = 0; i < count; i++)
        EXPECT(pthread_create(&thread[i], &attributes, work_a_little, (void *)(uintptr_t)i) == 0, "thread %d", i);
    for (int i = 0; i < count; i++) {
        void *left;
        pthread_join(thread[i], &left);
        free(left);
    }
    munmap(thread, count * sizeof *thread);
}

static void stacks_of_16_kib(void) { run_threads(200, 16 * KIB); }
static void a_thousand_threads(void) { run_threads(1000, 32 * KIB); }

static pthread_key_t key;

static void destroy(void *value) {
    uintptr_t *block = value;
    uintptr_t rounds = block[0];
    free(block);
    work_and_free(rounds, 20);
    if (rounds > 0) {
        block = malloc(64 * (rounds + 1));
        block[0] = rounds - 1;
        pthread_setspecific(key, block);
    }
}

static void *leave_a_value(void *unused) {
    (void)unused;
    uintptr_t *block = malloc(16);
    block[0] = 3;
    pthread_setspecific(key, block);
    return NULL;
}

static void destructors_of_threads_allocate(void) {
    pthread_key_create(&key, destroy);
    for (int i = 0; i < 200; i++) {
        pthread_t thread[4];
        for (int j = 0; j < 4; j++)
            EXPECT(pthread_create(&thread[j], NULL, leave_a_value, NULL) == 0, "a thread");
        for (int j = 0; j < 4; j++)
            pthread_join(thread[j], NULL);
    }
}

static void *kept_until_exit;

static void allocate_at_exit(void) {
    free(kept_until_exit);
    free(start_of_program);
    work_and_free(3, 500);
    free(strdup("after main"));
}

__attribute__((destructor)) static void allocate_after_everything(void) {
    if (kept_until_exit != NULL)
        work_and_free(4, 500);
}

static void exit_handlers_allocate(void) {
    kept_until_exit = malloc(5000);
    EXPECT(is_zero(start_of_program, 100000), "what a constructor allocated to stay");
    atexit(allocate_at_exit);
}

static void exit_while_threads_work(void) {
    for (int i = 0; i < 15; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread[8];
            start_workers(thread, 8);
            atexit(allocate_at_exit);
            usleep(2000);
            exit(0);
        }
        expect_success(child, "to exit while threads work");
    }
}

static void threads_change_cpus(void) {
    pthread_t thread[8];
    start_workers(thread, 8);
    double end = seconds() + number("ROBUSTNESS_SECONDS", 1);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (unsigned i = 0; seconds() < end; i++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(i / 8 % cpus, &one);
        pthread_setaffinity_np(thread[i % 8], sizeof one, &one);
        if (i % 8 == 0) {
            usleep(100);
            malloc_trim(0);
        }
    }
    stop_workers(thread, 8);
}

static void hard_requests(void) {
    for (size_t alignment = 16; alignment <= GIB; alignment *= 2) {
        void *block = NULL;
        if (posix_memalign(&block, alignment, alignment + 1) == 0) {
            EXPECT(is_aligned(block, alignment), "alignment %zu", alignment);
            memset(block, 1, 1);
            free(block);
        }
    }
    static const size_t NONSENSE[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 4096, (size_t)1 << 63, ((size_t)1 << 63) - 1};
    for (size_t i = 0; i < sizeof NONSENSE / sizeof *NONSENSE; i++) {
        void *block = NULL;
        EXPECT_NO_MEMORY(malloc(NONSENSE[i]));
        EXPECT_NO_MEMORY(calloc(NONSENSE[i] / 2, 3));
        EXPECT_NO_MEMORY(realloc(NULL, NONSENSE[i]));
        EXPECT(posix_memalign(&block, 4096, NONSENSE[i]) == ENOMEM, "no memory");
    }
    void *nothing[1000];
    for (int i = 0; i < 1000; i++) {
        nothing[i] = i % 2 ? malloc(0) : calloc(0, 7);
        EXPECT(nothing[i] != NULL && (i == 0 || nothing[i] != nothing[i - 1]), "unique blocks of no size");
    }
    for (int i = 0; i < 1000; i++)
        free(nothing[i]);
    work_and_free(1, 5000);
}

static const struct Case CASES[] = {
    CASE(stacks_of_16_kib), CASE(a_thousand_threads),
    CASE(destructors_of_threads_allocate), CASE(exit_handlers_allocate), CASE(exit_while_threads_work),
    CASE(threads_change_cpus), CASE(hard_requests),
};

int main(int argc, char **argv) { return RUN(CASES); }
