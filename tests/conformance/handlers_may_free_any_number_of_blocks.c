// A handler that interrupts malloc frees hundreds of blocks, large and small ones. None is lost.
// on: preload locked hardened static
#include "check.h"
#include <signal.h>
#include <sys/time.h>

extern int vcm_stats_get(const char *, uint64_t *) __attribute__((weak));
extern size_t vcm_release(size_t) __attribute__((weak));

enum { COUNT = 300 };
static void *volatile list[COUNT];
static volatile sig_atomic_t full, handled;

static void handler(int signal) {
    (void)signal;
    if (!full)
        return;
    for (int i = 0; i < COUNT; i++)
        free(list[i]);
    full = 0;
    handled++;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    while (handled < 300) {
        if (!full) {
            for (int i = 0; i < COUNT; i++)
                list[i] = malloc(i % 4 ? 300000 : 100);
            full = 1;
        }
        free(malloc(400000));
    }
    setitimer(ITIMER_REAL, &never, NULL);
    if (full)
        for (int i = 0; i < COUNT; i++)
            free(list[i]);
    free(malloc(400000));
    vcm_release(0);
    uint64_t blocks = 0, live = 0;
    EXPECT(vcm_stats_get("large_blocks", &blocks) == 0 && vcm_stats_get("live", &live) == 0, "figures");
    /* What the C library has of its own. */
    EXPECT(blocks <= 2 && live < MIB, "nothing in use, not %llu large blocks and %llu bytes", (unsigned long long)blocks,
           (unsigned long long)live);
    return 0;
}
