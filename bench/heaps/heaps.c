/* Heaps of tenants, on three allocators: what a heap costs, what it holds, and how long its end takes.

     heaps vcmalloc|jemalloc|mimalloc idle HEAPS           RSS a heap, with 1 KiB live in each
     heaps vcmalloc|jemalloc|mimalloc end MIB huge|small   a heap of blocks of 16 to 128 bytes ends, with a second thread in the
                                                           process; one munmap beside it
     heaps vcmalloc|jemalloc|mimalloc alone MIB huge|small the same in a process of one thread
     heaps vcmalloc|jemalloc|mimalloc pair THREADS         nanoseconds of a pair: malloc, in a scope, by the heap's function
     heaps vcmalloc|jemalloc|mimalloc churn                heaps made and ended in a second

   The allocator is preloaded; the functions are looked up. Prints one line a figure: name, number, unit. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../include/vcmalloc.h"

static struct {
    uintptr_t (*make)(void);
    void *(*allocate)(uintptr_t heap, size_t bytes);
    void (*end)(uintptr_t heap);
} heap;

static __typeof__(vcm_heap_new) *vcm_new;
static __typeof__(vcm_heap_malloc) *vcm_malloc;
static __typeof__(vcm_heap_destroy) *vcm_destroy;
static __typeof__(vcm_heap_push) *vcm_push;
static __typeof__(vcm_heap_pop) *vcm_pop;
static int (*mallctl_)(const char *, void *, size_t *, void *, size_t);
static void *(*mallocx_)(size_t, int);
static void *(*mi_new)(void), *(*mi_malloc)(void *, size_t);
static void (*mi_destroy)(void *);

static uintptr_t make_vcm(void) { return vcm_new("bench", NULL); }
static void *allocate_vcm(uintptr_t heap, size_t bytes) { return vcm_malloc(heap, bytes); }
static void end_vcm(uintptr_t heap) { vcm_destroy(heap, VCM_HEAP_FREE); }

static uintptr_t make_je(void) {
    unsigned arena;
    size_t length = sizeof arena;
    if (mallctl_("arenas.create", &arena, &length, NULL, 0))
        exit(3);
    return arena;
}
/* MALLOCX_ARENA and MALLOCX_TCACHE_NONE: the thread's cache would mix arenas. */
static void *allocate_je(uintptr_t arena, size_t bytes) { return mallocx_(bytes, (int)((arena + 1) << 20) | 1 << 8); }
static void end_je(uintptr_t arena) {
    char name[64];
    snprintf(name, sizeof name, "arena.%lu.destroy", (unsigned long)arena);
    if (mallctl_(name, NULL, NULL, NULL, 0))
        exit(3);
}

static uintptr_t make_mi(void) { return (uintptr_t)mi_new(); }
static void *allocate_mi(uintptr_t heap, size_t bytes) { return mi_malloc((void *)heap, bytes); }
static void end_mi(uintptr_t heap) { mi_destroy((void *)heap); }

static void *found(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    if (!function) {
        fprintf(stderr, "the allocator has no %s\n", name);
        exit(3);
    }
    return function;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static double rss_kib(void) {
    char text[256] = {0};
    long pages = 0;
    int file = open("/proc/self/statm", O_RDONLY);
    if (file >= 0 && read(file, text, sizeof text - 1) > 0)
        sscanf(text, "%*d %ld", &pages);
    close(file);
    return pages * 4.0;
}

static void idle(int heaps) {
    /* What the first heap brings in. */
    memset(heap.allocate(heap.make(), 1024), 1, 1024);
    double before = rss_kib(), start = now();
    for (int index = 0; index < heaps; index++) {
        uintptr_t made = heap.make();
        memset(heap.allocate(made, 1024), 1, 1024);
    }
    printf("idle %d heaps: %.2f KiB each, %.2f us each\n", heaps, (rss_kib() - before) / heaps, (now() - start) * 1e6 / heaps);
}

static void *sleeps(void *argument) {
    for (;;)
        pause();
    return argument;
}

static void end(size_t mib, int is_huge, int is_alone) {
    pthread_t thread;
    if (!is_alone)
        pthread_create(&thread, NULL, sleeps, NULL);
    uintptr_t made = heap.make();
    unsigned random = 1;
    size_t bytes = 0, blocks = 0;
    while (bytes < mib << 20) {
        random = random * 1103515245 + 12345;
        size_t length = 16 + (random >> 16) % 113;
        memset(heap.allocate(made, length), 1, length);
        bytes += length;
        blocks++;
    }
    double full = rss_kib(), start = now();
    heap.end(made);
    double returned = now();
    /* Until it is gone; 5 s at most. */
    double gone = returned;
    while (rss_kib() > full - 0.9 * (double)(bytes >> 10) && now() - returned < 5)
        usleep(1000);
    gone = now();
    printf("end of %zu blocks, %.0f MiB: returns after %.2f ms, gone after %.1f ms, left %.1f MiB\n", blocks, full / 1024,
           (returned - start) * 1e3, (gone - start) * 1e3, rss_kib() / 1024);
    size_t length = (size_t)full << 10;
    char *mapped = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (is_huge)
        madvise(mapped, length, MADV_HUGEPAGE);
    for (size_t at = 0; at < length; at += 4096)
        mapped[at] = 1;
    start = now();
    munmap(mapped, length);
    printf("munmap of as much: %.1f ms\n", (now() - start) * 1e3);
}

enum { PAIRS = 20000000, LIVE = 64 };
static atomic_int ready, go;
static int threads, way;
static uintptr_t one;

static void *pairs(void *argument) {
    void *block[LIVE] = {0};
    (void)argument;
    vcm_heap before = way == 1 ? vcm_push(one) : 0;
    for (int index = 0; index < LIVE; index++)
        block[index] = malloc(64);
    ready++;
    while (!go)
        ;
    int count = PAIRS / threads;
    for (int index = 0; index < count; index++) {
        void **place = &block[index % LIVE];
        free(*place);
        *place = way == 2 ? heap.allocate(one, 64) : malloc(64);
        *(volatile char *)*place = 1;
    }
    for (int index = 0; index < LIVE; index++)
        free(block[index]);
    if (way == 1)
        vcm_pop(before);
    return NULL;
}

static void pair(void) {
    static const char *const name[] = {"malloc", "malloc in a scope", "the heap's function"};
    one = heap.make();
    for (way = 0; way < 3; way++) {
        if (way == 1 && !vcm_push)
            continue;
        pthread_t thread[256];
        ready = go = 0;
        for (int index = 0; index < threads; index++)
            pthread_create(&thread[index], NULL, pairs, NULL);
        while (ready < threads)
            usleep(1000);
        double start = now();
        go = 1;
        for (int index = 0; index < threads; index++)
            pthread_join(thread[index], NULL);
        printf("pair by %s: %.2f ns a pair, %d threads\n", name[way], (now() - start) * 1e9 / PAIRS, threads);
    }
    /* After a scope: what it leaves behind for others. */
    if (vcm_push) {
        way = 0, ready = go = 0;
        pthread_t thread;
        int before = threads;
        threads = 1;
        pthread_create(&thread, NULL, pairs, NULL);
        double start = now();
        go = 1;
        pthread_join(thread, NULL);
        printf("pair by malloc after a scope: %.2f ns a pair, 1 thread\n", (now() - start) * 1e9 / PAIRS);
        threads = before;
    }
}

static void churn(void) {
    double start = now();
    int count = 0;
    while (now() - start < 1) {
        for (int index = 0; index < 100; index++, count++) {
            uintptr_t made = heap.make();
            *(char *)heap.allocate(made, 100) = 1;
            heap.end(made);
        }
    }
    printf("churn: %.0f heaps a second\n", count / (now() - start));
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    if (!strcmp(words[1], "vcmalloc")) {
        vcm_new = found("vcm_heap_new"), vcm_malloc = found("vcm_heap_malloc"), vcm_destroy = found("vcm_heap_destroy");
        vcm_push = found("vcm_heap_push"), vcm_pop = found("vcm_heap_pop");
        heap.make = make_vcm, heap.allocate = allocate_vcm, heap.end = end_vcm;
    } else if (!strcmp(words[1], "jemalloc")) {
        mallctl_ = found("mallctl"), mallocx_ = found("mallocx");
        heap.make = make_je, heap.allocate = allocate_je, heap.end = end_je;
    } else {
        mi_new = found("mi_heap_new"), mi_malloc = found("mi_heap_malloc"), mi_destroy = found("mi_heap_destroy");
        heap.make = make_mi, heap.allocate = allocate_mi, heap.end = end_mi;
    }
    if (!strcmp(words[2], "idle"))
        idle(atoi(words[3]));
    else if (!strcmp(words[2], "end") || !strcmp(words[2], "alone"))
        end((size_t)atol(words[3]), count > 4 && !strcmp(words[4], "huge"), *words[2] == 'a');
    else if (!strcmp(words[2], "pair"))
        threads = atoi(words[3]), pair();
    else
        churn();
    return 0;
}
