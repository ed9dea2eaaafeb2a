// Keeps 64 MB by one function and frees as much by another; writes profiles to the given folder by prof.dump, and by name.
#include "expect.h"
#include <sys/stat.h>

__attribute__((noinline)) static void *keeps_much(void) { return malloc(100000); }
__attribute__((noinline)) static void *frees_much(void) { return malloc(100000); }

// A thread's name outlives the arena that served the thread when it was set, counts for no thread, and goes with its own.
static void *named(void *arena) {
    EXPECT(SET(unsigned, *(unsigned *)arena, "thread.arena") == 0, "chosen");
    GET(uint64_t, "thread.allocated");
    uint64_t before = GET(uint64_t, "thread.allocated");
    const char *name = "a name of some length, which is kept", *kept = NULL;
    size_t length = sizeof kept;
    EXPECT(mallctl("thread.prof.name", NULL, NULL, &name, sizeof name) == 0, "set");
    EXPECT(!is_ours() || GET(uint64_t, "thread.allocated") == before, "it counts for nobody");
    EXPECT(mallctl("thread.prof.name", &kept, &length, NULL, 0) == 0 && strcmp(kept, name) == 0, "%s", kept);
    EXPECT(!is_ours() || mallctl("arenas.lookup", &(unsigned){0}, &(size_t){4}, &kept, sizeof kept) != 0 ||
               GET(size_t, "stats.arenas.%u.small.allocated", *(unsigned *)arena) == 0,
           "it is in the thread's arena");
    return NULL;
}

int main(int count, char **arguments) {
    EXPECT(count == 2, "a folder");
    bool active = true;
    size_t length = sizeof active;
    EXPECT(mallctl("prof.active", &active, &length, NULL, 0) == 0 && active, "prof:true is set");
    EXPECT(GET(size_t, "prof.lg_sample") == 16 && GET(bool, "opt.prof"), "lg_prof_sample:16 is set");
    static void *kept[640], *freed[640];
    for (int index = 0; index < 640; index++) {
        kept[index] = keeps_much();
        freed[index] = frees_much();
    }
    for (int index = 0; index < 640; index++) {
        free(freed[index]);
    }
    char path[500], *name = path;
    snprintf(path, sizeof path, "%s/by-name.heap", arguments[1]);
    EXPECT(mallctl("prof.dump", NULL, NULL, &name, sizeof name) == 0, "a file of this name");
    snprintf(path, sizeof path, "%s/prefix", arguments[1]);
    EXPECT(mallctl("prof.prefix", NULL, NULL, &name, sizeof name) == 0, "a prefix");
    EXPECT(DO("prof.dump") == 0 && DO("prof.dump") == 0, "files with the prefix");
    snprintf(path, sizeof path, "%s/none/x.heap", arguments[1]);
    EXPECT(mallctl("prof.dump", NULL, NULL, &name, sizeof name) == EFAULT, "no such folder");
    EXPECT(DO("prof.reset") == 0, "all samples go");
    unsigned arena = GET(unsigned, "arenas.create");
    in_thread(named, &arena);
    EXPECT(DO("arena.%u.destroy", arena) == 0, "nothing of the thread is in it");
    size_t once = (next_epoch(), GET(size_t, "stats.allocated"));
    arena = GET(unsigned, "arenas.create");
    for (int round = 0; round < 1000; round++) {
        in_thread(named, &arena);
    }
    next_epoch();
    EXPECT(!is_ours() || GET(size_t, "stats.allocated") < once + 20000, "names stay: %zu", GET(size_t, "stats.allocated") - once);
    bool off = false;
    EXPECT(mallctl("prof.active", &active, &length, &off, 1) == 0 && active, "off");
    EXPECT(!GET(bool, "prof.active"), "it is off");
    for (int index = 0; index < 640; index++) {
        free(kept[index]);
    }
    return 0;
}
