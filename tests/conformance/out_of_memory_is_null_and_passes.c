// Under RLIMIT_AS running out gives null and ENOMEM, a failed realloc keeps the old block, much of the limit
// is usable, and after frees the heap works as before.
// on: glibc preload locked hardened static
#include "check.h"
#include <sys/resource.h>

#define LIMIT (512 * MIB)

struct link {
    struct link *next;
};

static size_t exhaust(size_t bytes, struct link **chain) {
    size_t count = 0;
    for (;;) {
        errno = 0;
        struct link *block = malloc(bytes);
        if (block == NULL)
            break;
        memset(block, 0x5A, bytes);
        block->next = *chain;
        *chain = block;
        count++;
    }
    EXPECT(errno == ENOMEM, "ENOMEM when %zu bytes are not to be had", bytes);
    return count;
}

static void give_back(struct link *chain) {
    while (chain != NULL) {
        struct link *next = chain->next;
        free(chain);
        chain = next;
    }
}

static void run_out(size_t bytes) {
    struct link *chain = NULL;
    size_t count = exhaust(bytes, &chain);
    EXPECT(count * bytes > LIMIT / 3, "more than a third of the limit in blocks of %zu, not %zu MiB", bytes,
           count * bytes / MIB);
    EXPECT(count * bytes <= LIMIT, "no more than the limit, not %zu MiB", count * bytes / MIB);
    EXPECT_NO_MEMORY(calloc(LIMIT / 4, 1));
    EXPECT_NO_MEMORY(memalign(4096, LIMIT / 4));
    EXPECT_NO_MEMORY(realloc(chain, LIMIT / 4));
    void *untouched = &chain;
    EXPECT(posix_memalign(&untouched, 4096, LIMIT / 4) == ENOMEM && untouched == &chain,
           "posix_memalign to fail well");
    EXPECT(bytes < 64 || ((unsigned char *)chain)[bytes - 1] == 0x5A,
           "a failed realloc to keep the old block");
    /* Again and again: a failure must not leave anything broken or taken. */
    for (int i = 0; i < 1000; i++)
        EXPECT_NO_MEMORY(malloc(LIMIT / 4));
    give_back(chain);
    void *after = malloc(LIMIT / 4);
    EXPECT(after != NULL, "a quarter of the limit after everything of size %zu was freed", bytes);
    memset(after, 1, LIMIT / 4);
    free(after);
}

int main(int count, char **arguments) {
    if (count < 2) {
        /* Started again, because a limit binds an allocator from its start. */
        struct rlimit limit = {LIMIT, LIMIT};
        EXPECT(setrlimit(RLIMIT_AS, &limit) == 0, "a limit of 512 MiB");
        char *again[] = {arguments[0], "inside", NULL};
        execv("/proc/self/exe", again);
        EXPECT(0, "to start again under the limit");
    }
    run_out(1 * MIB);
    run_out(100);
    run_out(9000);
    run_out(70 * KIB);
    run_out(5 * MIB);
    run_out(24);
    run_out(1 * MIB);
    return 0;
}
