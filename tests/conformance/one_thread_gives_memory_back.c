// Memory goes back also where there is no janitor: at once when silence follows, and to what may stay with light traffic. In a
// process of one thread, children of threaded parents, children of children, and where the janitor is switched off.
// on: preload locked hardened static
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

static uint64_t figure(const char *name) {
    int (*stats_get)(const char *, uint64_t *) = function("vcm_stats_get");
    uint64_t value = 0;
    EXPECT(stats_get(name, &value) == 0, "the figure %s", name);
    return value;
}

static void burst(size_t bytes, size_t count, size_t step) {
    void **block = malloc(count * sizeof *block);
    for (size_t i = 0; i < count; i++)
        memset(block[i] = malloc(bytes), 1, bytes);
    for (size_t first = 0; first < step; first++)
        for (size_t i = first; i < count; i += step)
            free(block[i]);
    free(block);
}

static void silence_and_light_traffic(const char *where, int first) {
    static const size_t LOADS[][3] = {{1000000, 60, 1}, {60000000, 1, 1}, {20000, 3000, 7}, {1000, 60000, 1}};
    for (int load = 0; load < 4; load++) {
        burst(LOADS[load][0], LOADS[load][1], LOADS[load][2]);
        // The first alone: later ones show that such memory is wanted again.
        if (first && load == 0)
            EXPECT(figure("dirty_free") < 32 * MIB, "at most 32 MiB to stay, not %zu, in %s",
                   (size_t)(figure("dirty_free") / MIB), where);
        uint64_t left = 0;
        for (int tries = 0; tries < 3000; tries++) {
            free(malloc(100));
            left = figure("dirty_free");
            if (left <= 12 * MIB)
                break;
            usleep(10 * 1000);
        }
        EXPECT(left <= 12 * MIB, "the memory to go back, not %zu MiB to stay, in %s", (size_t)(left / MIB), where);
    }
}

static void in_child(const char *where, int more) {
    pid_t child = fork();
    if (child == 0) {
        if (more)
            in_child("a child of a child", 0);
        silence_and_light_traffic(where, 1);
        _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "the child to end well, not with %x", status);
}

static void *nothing(void *argument) {
    return argument;
}

int main(void) {
    int (*option_set)(const char *, const char *) = function("vcm_option_set");
    EXPECT(option_set("release_delay", "100ms") == 0, "the option");
    silence_and_light_traffic("a process of one thread", 1);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, nothing, NULL) == 0, "a thread");
    pthread_join(thread, NULL);
    in_child("a child of a parent that had threads", 1);
    EXPECT(option_set("janitor", "off") == 0, "the option");
    silence_and_light_traffic("a process whose janitor is switched off", 0);
    return 0;
}
