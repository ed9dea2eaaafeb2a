// Two heaps in a process: the program's malloc, which is ours by LD_PRELOAD, and another allocator's library, whose functions
// are looked for in its file. Threads fill blocks of both, hand them to each other, change their CPU and check what is in
// them. At the end it says what the other is on, and waits to be looked at until its input ends.
//
//   two_heaps LIBRARY linked|late|fresh SECONDS
//     linked   the library is loaded before main: it was preloaded behind ours
//     late     main loads it, after threads have allocated; main is the first to use it
//     fresh    the same, but a thread that has not allocated yet is the first to use it
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, PLACES = 512 };

struct heap {
    void *(*allocate)(size_t);
    void (*release)(void *);
};
struct block {
    uint32_t bytes, check;
    struct heap *heap;
};

static struct heap heaps[2];
static _Atomic(struct block *) places[PLACES];
static atomic_int must_end;
static atomic_long rounds;

static void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    _exit(1);
}

static uint32_t next(uint32_t *seed) { return *seed = *seed * 1664525 + 1013904223; }

static void look(struct block *block) {
    if (!block) return;
    unsigned char *bytes = (unsigned char *)(block + 1);
    for (uint32_t i = 0; i < block->bytes; i += 61)
        if (bytes[i] != (unsigned char)(block->check + i)) die("a block's contents have changed");
    block->heap->release(block);
}

static void *work(void *argument) {
    uint32_t seed = (uint32_t)(uintptr_t)argument * 7919 + 1;
    for (long round = 0; !atomic_load_explicit(&must_end, memory_order_relaxed); round++) {
        uint32_t bytes = next(&seed) >> 8;
        bytes = bytes % 64 ? bytes % 1500 : bytes % 100000;
        struct heap *heap = &heaps[next(&seed) >> 16 & 1];
        struct block *block = heap->allocate(sizeof *block + bytes);
        if (!block) die("there is no memory");
        *block = (struct block){bytes, next(&seed), heap};
        for (uint32_t i = 0; i < bytes; i += 61) ((unsigned char *)(block + 1))[i] = (unsigned char)(block->check + i);
        look(atomic_exchange(&places[next(&seed) >> 16 & (PLACES - 1)], block));
        if (round % 5000 == 0) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET((next(&seed) >> 16) % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), &set);
            sched_setaffinity(0, sizeof set, &set);
        }
        atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
    }
    return NULL;
}

static void *first_use(void *argument) {
    void *block = heaps[1].allocate(100);
    if (!block) die("the other heap has no memory");
    heaps[1].release(block);
    return argument;
}

static void own_blocks(void) {
    void *blocks[200];
    for (int i = 0; i < 200; i++) blocks[i] = malloc(i * 13);
    for (int i = 0; i < 200; i++) free(blocks[i]);
}

static void *own_blocks_of_a_thread(void *argument) {
    own_blocks();
    return argument;
}

static void run(void *(*start)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, start, NULL) || pthread_join(thread, NULL)) die("no thread");
}

int main(int count, char **words) {
    if (count != 4) die("two_heaps LIBRARY linked|late|fresh SECONDS");
    int is_linked = !strcmp(words[2], "linked");
    own_blocks();
    run(own_blocks_of_a_thread);
    void *library = dlopen(words[1], is_linked ? RTLD_NOW | RTLD_NOLOAD : RTLD_NOW | RTLD_LOCAL);
    if (!library) die(is_linked ? "the library is not loaded" : dlerror());
    heaps[0] = (struct heap){malloc, free};
    // google/tcmalloc under its own names, where it is not built to be malloc.
    int is_internal = dlsym(library, "TCMallocInternalMalloc") != NULL;
    heaps[1].allocate = (void *(*)(size_t))dlsym(library, is_internal ? "TCMallocInternalMalloc" : "malloc");
    heaps[1].release = (void (*)(void *))dlsym(library, is_internal ? "TCMallocInternalFree" : "free");
    if (!heaps[1].allocate || heaps[1].allocate == heaps[0].allocate) die("there are no two heaps");
    if (!strcmp(words[2], "fresh")) run(first_use);
    first_use(NULL);

    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    struct timespec pause = {atol(words[3]), 0};
    nanosleep(&pause, NULL);
    // Threads that come and go beside those that stay.
    for (int i = 0; i < 200; i++) run(i % 2 ? own_blocks_of_a_thread : first_use);
    atomic_store(&must_end, 1);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < PLACES; i++) look(places[i]);
    if (atomic_load(&rounds) < 1000) die("hardly anything was allocated");

    _Bool (*is_on_cpus)(void) = (_Bool (*)(void))dlsym(library, "MallocExtension_Internal_GetPerCpuCachesActive");
    printf("%s\n", !is_on_cpus ? "-" : is_on_cpus() ? "caches of CPUs" : "caches of threads");
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}
