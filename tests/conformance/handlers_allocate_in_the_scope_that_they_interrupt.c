// Handlers of signals that interrupt threads in a scope, at any instruction, allocate, free, enter scopes of their own and ask for
// figures; blocks keep their contents, and the scope is as it was.
// on: preload locked registered hardened static
// limit: 240
#include "heaps.h"
#include <pthread.h>
#include <signal.h>

enum { THREADS = 6, ROUNDS = 40000, KEPT = 32, SIGNALS = 3000 };
static vcm_heap heap[THREADS], foreign;
static atomic_int handled, working;

static void handle(int signal) {
    (void)signal;
    int error = errno;
    unsigned char *own = malloc(200);
    if (own)
        memset(own, 3, 200);
    vcm_heap before = heaps.push(foreign);
    unsigned char *other = malloc(300), *named = heaps.malloc(foreign, 70);
    heaps.pop(before);
    EXPECT(!own || (own[0] == 3 && own[199] == 3), "a handler's block");
    free(own);
    free(other);
    free(named);
    struct vcm_heap_stats stats = {.size = sizeof stats};
    heaps.stats(foreign, &stats);
    heaps.set_limit(foreign, 64 * MIB);
    atomic_fetch_add(&handled, 1);
    errno = error;
}

static void *work(void *argument) {
    int number = (int)(uintptr_t)argument;
    unsigned random = (unsigned)number * 31 + 1;
    unsigned char *kept[KEPT] = {0};
    size_t length[KEPT] = {0};
    vcm_heap before = heaps.push(heap[number]);
    for (int round = 0; round < ROUNDS || atomic_load(&handled) < SIGNALS; round++) {
        int at = (int)(next_random(&random) % KEPT);
        if (kept[at])
            EXPECT(kept[at][0] == at && kept[at][length[at] - 1] == at, "contents");
        length[at] = 1 + next_random(&random) % (round % 500 ? 1000 : 300000);
        if (round % 3) {
            free(kept[at]);
            kept[at] = malloc(length[at]);
        } else {
            kept[at] = realloc(kept[at], length[at]);
        }
        EXPECT(kept[at], "a block");
        memset(kept[at], at, length[at]);
        EXPECT(heaps.of(kept[at]) == heap[number], "a block of the scope");
    }
    for (int at = 0; at < KEPT; at++)
        free(kept[at]);
    heaps.pop(before);
    atomic_fetch_sub(&working, 1);
    return NULL;
}

int main(void) {
    find_heaps();
    foreign = heap_below(VCM_HEAP_NONE, 64 * MIB);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    EXPECT(!sigaction(SIGUSR1, &action, NULL), "a handler");
    pthread_t thread[THREADS];
    atomic_store(&working, THREADS);
    for (int index = 0; index < THREADS; index++) {
        heap[index] = heap_below(VCM_HEAP_NONE, 0);
        EXPECT(!pthread_create(&thread[index], NULL, work, (void *)(uintptr_t)index), "a thread");
    }
    while (atomic_load(&working) > 0) {
        for (int index = 0; index < THREADS; index++)
            pthread_kill(thread[index], SIGUSR1);
        usleep(100);
    }
    for (int index = 0; index < THREADS; index++) {
        pthread_join(thread[index], NULL);
        EXPECT(stats_of(heap[index]).live_blocks == 0, "nothing left");
        EXPECT(!heaps.destroy(heap[index], VCM_HEAP_DRAIN), "an end");
    }
    EXPECT(stats_of(foreign).live_blocks == 0 && !heaps.destroy(foreign, VCM_HEAP_FREE), "nothing left");
    return 0;
}
