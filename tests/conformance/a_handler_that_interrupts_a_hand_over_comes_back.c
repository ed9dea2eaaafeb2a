// A signal handler interrupts the thread that hands a heap over, and reallocates a block of it to more than emergency memory has: it
// does not wait for the thread that it interrupted.
// on: preload locked hardened static
#include "check.h"
#include "heaps.h"
#include <signal.h>
#include <time.h>

enum { BLOCKS = 100000, MORE = 64 << 20, ROUNDS = 5 };

static unsigned char *blocks[BLOCKS];
static volatile sig_atomic_t is_armed;

static void handle(int signal) {
    (void)signal;
    if (!is_armed)
        return;
    is_armed = 0;
    unsigned char *more = realloc(blocks[1], MORE);
    if (more)
        blocks[1] = more;
}

int main(void) {
    find_heaps();
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    for (int round = 0; round < ROUNDS; round++) {
        vcm_heap heap = heap_below(VCM_HEAP_NONE, 0);
        for (int i = 0; i < BLOCKS; i++)
            EXPECT(blocks[i] = heaps.aligned(heap, 32 * KIB, 100), "block %d", i);
        timer_t timer;
        EXPECT(!timer_create(CLOCK_MONOTONIC, &event, &timer), "a timer");
        struct itimerspec after = {.it_value = {0, 1000000 + round * 500000}};
        is_armed = 1;
        timer_settime(timer, 0, &after, NULL);
        EXPECT(!heaps.destroy(heap, VCM_HEAP_HAND_OVER), "the heap to hand its blocks over");
        is_armed = 0;
        timer_delete(timer);
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
    return 0;
}
