// Opens gperftools' own libraries, as a plugin that is linked with one does: ours goes on serving and telling.
#include <dlfcn.h>
#include <gperftools/malloc_extension_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **paths) {
    for (int index = 1; index < count; index++) {
        if (!dlopen(paths[index], RTLD_NOW | RTLD_GLOBAL)) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    }
    for (int index = 0; index < 100; index++) {
        memset(malloc(1 << 20), 1, 1 << 20);
    }
    size_t live = 0;
    MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &live);
    if (live < 100 << 20) {
        fprintf(stderr, "it tells of %zu bytes, not of 100 MiB\n", live);
        return 1;
    }
    return 0;
}
