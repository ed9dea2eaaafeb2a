// Keeps 64 MB by one function and frees as much by another; writes profiles to the given folder by prof.dump, and by name.
#include "expect.h"
#include <sys/stat.h>

__attribute__((noinline)) static void *keeps_much(void) { return malloc(100000); }
__attribute__((noinline)) static void *frees_much(void) { return malloc(100000); }

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
    bool off = false;
    EXPECT(mallctl("prof.active", &active, &length, &off, 1) == 0 && active, "off");
    EXPECT(!GET(bool, "prof.active"), "it is off");
    for (int index = 0; index < 640; index++) {
        free(kept[index]);
    }
    return 0;
}
