// A limit on data set while the program runs (RLIMIT_DATA) gives null and ENOMEM; lifting it heals the heap.
// on: glibc preload locked static
#include "check.h"
#include <sys/resource.h>

static void set_limit(rlim_t bytes) {
    struct rlimit limit;
    getrlimit(RLIMIT_DATA, &limit);
    limit.rlim_cur = bytes;
    EXPECT(setrlimit(RLIMIT_DATA, &limit) == 0, "a limit on data");
}

int main(void) {
    enum { COUNT = 4096 };
    static unsigned char *block[COUNT];
    for (int round = 0; round < 3; round++) {
        size_t bytes = round == 0 ? 100 * KIB : round == 1 ? 300 * KIB : 1 * MIB;
        set_limit(200 * MIB);
        int got = 0;
        errno = 0;
        while (got < COUNT && (block[got] = malloc(bytes)) != NULL) {
            memset(block[got], 1, bytes);
            got++;
        }
        EXPECT(got < COUNT && errno == ENOMEM, "ENOMEM within 200 MiB in blocks of %zu", bytes);
        fill(block[0], bytes, 9);
        EXPECT_NO_MEMORY(realloc(block[0], 100 * MIB));
        EXPECT(holds(block[0], bytes, 9), "a failed realloc to keep the old block");
        set_limit(RLIM_INFINITY);
        void *large = malloc(300 * MIB);
        EXPECT(large != NULL, "300 MiB once the limit is lifted");
        memset(large, 1, 300 * MIB);
        free(large);
        malloc_trim(0);
        while (got > 0)
            free(block[--got]);
        malloc_trim(0);
    }
    return 0;
}
