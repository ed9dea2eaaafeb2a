// A signal handler that interrupts the fast path may itself take and give back a small block: no lock is held
// there.
// on: preload hardened
// limit: 60
#include "check.h"
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t runs;

static void handler(int signal) {
    (void)signal;
    unsigned char *block = malloc(64);
    if (block == NULL || (block[0] == 0xEE && block[63] == 0xEE))
        _exit(9);
    memset(block, 0x11, 64);
    free(block);
    runs++;
}

int main(void) {
    /* One CPU: a cold cache would lead into the slow path, where a lock may be held. */
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    alarm(40);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    unsigned char *warm[16];
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 16; i++)
            warm[i] = malloc(64);
        for (int i = 0; i < 16; i++)
            free(warm[i]);
    }
    struct itimerval timer = {{0, 200}, {0, 200}};
    setitimer(ITIMER_PROF, &timer, NULL);
    for (long step = 0; step < 20000000 && runs < 2000; step++) {
        unsigned char *block = malloc(64);
        EXPECT(block != NULL, "a block");
        /* While it is ours the handler must not get it. */
        memset(block, 0xEE, 64);
        block[32] = (unsigned char)step;
        EXPECT(block[0] == 0xEE && block[63] == 0xEE && block[32] == (unsigned char)step,
               "the block to stay ours");
        block[0] = 0;
        free(block);
    }
    EXPECT(runs > 10, "the handler to run, not %d times", (int)runs);
    return 0;
}
