// A child of fork, or of _Fork, of a process whose threads make, use and end heaps at once has heaps that it can use, ask about,
// reset and end, in a scope or not; the argument says how many.
// on: preload locked registered hardened static
// args: 60
// args.kernels: 10
// limit: 240
#include "heaps.h"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { THREADS = 12, BLOCKS = 64 };
static atomic_int stop;
static vcm_heap root, common;

static void *work(void *argument) {
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
    unsigned random = (unsigned)(uintptr_t)argument * 7919 + 1;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        vcm_heap heap = heap_below(root, 16 * MIB), before = heaps.push(random % 3 ? heap : common);
        void *block[BLOCKS];
        for (int i = 0; i < BLOCKS; i++)
            block[i] = i % 2 ? heaps.malloc(heap, 1 + next_random(&random) % 3000) : malloc(1 + next_random(&random) % 90000);
        heaps.pop(before);
        int mode = (int)(next_random(&random) % 3);
        if (mode == VCM_HEAP_FREE)
            for (int i = 0; i < BLOCKS; i++)
                free(block[i]);
        EXPECT(heaps.destroy(heap, mode) == 0, "an end");
        if (mode != VCM_HEAP_FREE)
            for (int i = 0; i < BLOCKS; i++)
                free(block[i]);
        for (int i = 0; i < 1500; i++)
            free(heaps.malloc(common, 1 + (size_t)i % 300));
        sched_yield();
    }
    return NULL;
}

static int found;

static void look(vcm_heap heap, void *argument) {
    (void)argument;
    struct vcm_heap_stats stats = {.size = sizeof stats};
    found += heaps.stats(heap, &stats) == 0;
}

/* What a child does with what it has. */
static void live(vcm_heap scope) {
    alarm(100);
    void *kept = malloc(500);
    EXPECT(kept && heaps.of(kept) == scope, "the scope of the thread that forked");
    heaps.pop(VCM_HEAP_PROCESS);
    heaps.each(look, NULL);
    EXPECT(found >= 2, "the heaps of its parent");
    for (int i = 0; i < 3000; i++) {
        void *block = heaps.malloc(common, 1 + (size_t)i % 2000);
        EXPECT(block && heaps.of(block) == common, "a block of a heap of the parent");
        memset(block, 1, 1 + (size_t)i % 2000);
        free(block);
    }
    vcm_heap heap = heap_below(root, 16 * MIB);
    for (int i = 0; i < 2000; i++)
        EXPECT(heaps.malloc(heap, 1 + (size_t)i % 2000), "a block of a heap of its own");
    EXPECT(stats_of(heap).live_blocks == 2000 && !heaps.reset(heap) && stats_of(heap).live_blocks == 0, "figures");
    EXPECT(!heaps.destroy(heap, VCM_HEAP_HAND_OVER), "an end");
    free(kept);
    EXPECT(!heaps.destroy(common, VCM_HEAP_FREE), "an end of a heap of the parent");
    heaps.release(root);
    free(malloc(100000));
    _exit(0);
}

int main(int count, char **arguments) {
    int children = count > 1 ? atoi(arguments[1]) : 60;
    find_heaps();
    root = heap_below(VCM_HEAP_NONE, 0);
    common = heap_below(root, 0);
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        EXPECT(!pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1)), "a thread");
    for (int i = 0; i < children; i++) {
        vcm_heap scope = i % 4 < 2 ? common : VCM_HEAP_PROCESS, before = heaps.push(scope);
        pid_t child = i % 2 ? fork() : _Fork();
        if (child == 0)
            live(scope);
        heaps.pop(before);
        int status = 0;
        EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0, "child %d to end well, not with %x", i, status);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    EXPECT(stats_of(root).live_blocks == 0 && stats_of(root).children == 1, "nothing left in the parent");
    EXPECT(!heaps.destroy(common, VCM_HEAP_FREE) && !heaps.destroy(root, VCM_HEAP_FREE), "ends");
    return 0;
}
