// A thread enters the strict mode, in which it may read, write and end: it goes on allocating and freeing what it has, samples
// among that, and the other threads have their memory, and give it back. The mode also forbids the clock's instruction.
// on: preload locked registered hardened
// flags: -pthread
#include "filter.h"
#include "growth.h"
#include <poll.h>
#include <pthread.h>

static int to_main[2], to_thread[2];

static void *live_strictly(void *nothing) {
    char byte = 0;
    free(malloc(1000));
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "the strict mode");
    for (int i = 0; i < 50; i++) {
        void *block = malloc(i == 20 ? 30 * MIB : 1000);
        if (block != NULL)
            memset(block, 1, 1000);
        free(block);
    }
    if (write(to_main[1], &byte, 1) == 1)
        while (read(to_thread[0], &byte, 1) > 0) {
        }
    syscall(SYS_exit, 0);
    return nothing;
}

int main(void) {
    pthread_t thread;
    int (*option_set)(const char *, const char *) = function("vcm_option_set");
    EXPECT(option_set("release_delay", "100ms") == 0, "the option");
    /* Until the strict thread is through: one that waits for a lock, or wakes a waiter, is ended. */
    EXPECT(option_set("janitor", "off") == 0, "the option");
    EXPECT(pipe(to_main) == 0 && pipe(to_thread) == 0, "pipes");
    EXPECT(pthread_create(&thread, NULL, live_strictly, NULL) == 0, "a thread");
    struct pollfd ready = {.fd = to_main[0], .events = POLLIN};
    EXPECT(poll(&ready, 1, 30 * 1000) == 1, "the strict thread to live");
    EXPECT(option_set("janitor", "on") == 0, "the option");
    EXPECT(grows(), "memory for the other thread");
    expect_memory_back();
    return 0;
}
