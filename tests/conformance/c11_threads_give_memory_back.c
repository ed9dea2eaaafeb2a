// A program whose threads are C11's has the thread that gives memory back, as one with POSIX threads.
// on: preload locked
#include "check.h"
#include <threads.h>

static int load(void *argument) {
    enum { BLOCKS = 20000 };
    static void *block[BLOCKS];
    (void)argument;
    for (int i = 0; i < BLOCKS; i++)
        block[i] = memset(malloc(4000), 1, 4000);
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    return 0;
}

int main(void) {
    int (*option_set)(const char *, const char *) = function("vcm_option_set");
    int (*stats_get)(const char *, uint64_t *) = function("vcm_stats_get");
    EXPECT(option_set("release_delay", "100ms") == 0, "the option");
    thrd_t thread;
    EXPECT(thrd_create(&thread, load, NULL) == thrd_success, "a thread");
    thrd_join(thread, NULL);
    uint64_t resident = 0;
    for (int tries = 0; tries < 100; tries++) {
        stats_get("resident", &resident);
        if (resident < 20 * MIB)
            return 0;
        usleep(100 * 1000);
    }
    EXPECT(resident < 20 * MIB, "the memory to go back, not %zu MiB to stay", (size_t)(resident / MIB));
    return 0;
}
