// The functions of vcmalloc.h leave errno alone, whatever they ask the system for.
// on: preload locked hardened static
#include "check.h"

#define KEEPS(call)                                     \
    do {                                                \
        errno = 4711;                                   \
        call;                                           \
        EXPECT(errno == 4711, "%s to keep errno", #call); \
    } while (0)

int main(void) {
    int (*option_set)(const char *, const char *) = function("vcm_option_set");
    int (*option_get)(const char *, char *, size_t) = function("vcm_option_get");
    size_t (*options_text)(char *, size_t) = function("vcm_options_text");
    size_t (*stats_text)(char *, size_t) = function("vcm_stats_text");
    size_t (*stats_json)(char *, size_t) = function("vcm_stats_json");
    int (*stats_get)(const char *, uint64_t *) = function("vcm_stats_get");
    size_t (*release)(size_t) = function("vcm_release");
    size_t (*release_text)(size_t, char *, size_t) = function("vcm_release_text");
    static char text[1 << 16];
    uint64_t figure;
    free(malloc(MIB));
    KEEPS(option_set("cache_limit", "5M"));
    KEEPS(option_set("memory_limit", "80%"));
    KEEPS(option_set("hard_limit", "8G"));
    KEEPS(option_set("no_such_option", "1"));
    KEEPS(option_get("cache_limit", text, sizeof text));
    KEEPS(options_text(text, sizeof text));
    KEEPS(stats_text(text, sizeof text));
    KEEPS(stats_json(text, sizeof text));
    KEEPS(stats_get("resident", &figure));
    KEEPS(release(0));
    KEEPS(release_text(0, text, sizeof text));
    return 0;
}
