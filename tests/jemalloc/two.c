// jemalloc's own library, loaded for itself alone beside ours: each serves whoever asks it.
#include "expect.h"
#include <dlfcn.h>

int main(int count, char **arguments) {
    EXPECT(count == 2, "the other library");
    void *theirs = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    EXPECT(theirs, "%s", dlerror());
    int (*ctl)(const char *, void *, size_t *, void *, size_t) = dlsym(theirs, "mallctl");
    void *(*take)(size_t) = dlsym(theirs, "malloc");
    void (*give)(void *) = dlsym(theirs, "free");
    const char *version, *own = GET(const char *, "version");
    size_t length = sizeof version;
    EXPECT(ctl("version", &version, &length, NULL, 0) == 0 && strcmp(version, own), "%s", own);
    void *block = take(5 << 20);
    next_epoch();
    size_t allocated = GET(size_t, "stats.allocated"), of_theirs = 0;
    uint64_t epoch = 1;
    length = sizeof epoch;
    ctl("epoch", &epoch, &length, &epoch, sizeof epoch);
    length = sizeof of_theirs;
    ctl("stats.allocated", &of_theirs, &length, NULL, 0);
    EXPECT(allocated < 4 << 20 && of_theirs >= 5 << 20, "%zu, theirs %zu", allocated, of_theirs);
    unsigned arena = 0;
    length = sizeof arena;
    EXPECT(mallctl("arenas.lookup", &arena, &length, &block, sizeof block) == EINVAL, "their block is none of ours");
    give(block);
    free(malloc(100));
    return 0;
}
