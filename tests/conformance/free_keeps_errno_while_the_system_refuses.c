// free leaves errno as it was also when it does the janitor's work, and what it asks of the system is refused: in a
// program without the janitor's thread that may open no file.
// on: preload locked hardened static
#include "check.h"
#include <sys/resource.h>

enum { COUNT = 1000 };
static void *block[COUNT];

static void set(const char *name, const char *value) {
    int (*set_option)(const char *, const char *) = function("vcm_option_set");
    EXPECT(set_option(name, value) == 0, "option %s to take %s", name, value);
}

/* At every second tick the heap reads what memory its group has. */
static uint64_t ticks(void) {
    int (*statistic)(const char *, uint64_t *) = function("vcm_stats_get");
    uint64_t ticks = 0;
    EXPECT(statistic("ticks", &ticks) == 0, "the heap to count its ticks");
    return ticks;
}

int main(void) {
    set("janitor", "off");
    set("release_delay", "10ms");
    set("cache_limit", "0"); /* so that every free takes the slow path */
    struct rlimit none = {0, 0};
    EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0, "a limit");
    /* However long it takes until enough was due in the middle of a free. */
    for (uint64_t seen = 0; seen < 20;) {
        for (int i = 0; i < COUNT; i++)
            EXPECT((block[i] = malloc(100 + i % 7 * 900)) != NULL, "a block");
        usleep(3000);
        uint64_t before = ticks();
        for (int i = 0; i < COUNT; i++) {
            errno = 4711;
            free(block[i]);
            EXPECT(errno == 4711, "free to keep errno");
        }
        seen += ticks() - before;
    }
    return 0;
}
