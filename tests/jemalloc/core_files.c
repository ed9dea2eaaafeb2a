// An arena that is left out of core files, as RocksDB and folly do it: hooks that were read, with another alloc. On jemalloc that alloc
// asks the system; on ours VCM_DUMP_HEAPS=off does, and no hook is called. With the argument "refused": ours without that option.
#include "expect.h"
#include <sys/mman.h>

static extent_alloc_t *original;
static int calls;

static void *alloc_undumped(extent_hooks_t *hooks, void *at, size_t bytes, size_t alignment, bool *zero, bool *commit, unsigned arena) {
    calls++;
    void *extent = original(hooks, at, bytes, alignment, zero, commit, arena);
    if (extent != NULL) {
        madvise(extent, bytes, MADV_DONTDUMP);
    }
    return extent;
}

// Of the mapping that has an address: whether core files have it.
static bool is_dumped(const void *address) {
    static char line[4096];
    FILE *maps = fopen("/proc/self/smaps", "r");
    EXPECT(maps != NULL, "smaps");
    bool is_there = false, is_dumped = true;
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long start, end;
        char name[64];
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && sscanf(line, "%63[^ :]:", name) == 1 && strchr(name, '-') != NULL) {
            is_there = start <= (unsigned long)address && (unsigned long)address < end;
        } else if (is_there && strncmp(line, "VmFlags:", 8) == 0) {
            is_dumped = strstr(line, " dd") == NULL;
            break;
        }
    }
    fclose(maps);
    return is_dumped;
}

static const size_t SIZES[] = {1, 100, 4096, 5000, 16 << 10, 100 << 10, 256 << 10, 300 << 10, 1 << 20, 5 << 20};
enum { COUNT = sizeof SIZES / sizeof SIZES[0] };

// All pages of a block, as they should be.
static void expect_dumped(const char *block, size_t bytes, bool wanted, const char *what) {
    for (size_t at = 0; at < bytes; at += bytes / 8 + 1) {
        EXPECT(is_dumped(block + at) == wanted, "%s: %zu of %zu bytes", what, at, bytes);
    }
}

static void blocks(int flags, bool wanted, const char *what) {
    char *kept[COUNT];
    for (int index = 0; index < COUNT; index++) {
        kept[index] = flags == 0 ? malloc(SIZES[index]) : mallocx(SIZES[index], flags);
        memset(kept[index], 7, SIZES[index]);
        expect_dumped(kept[index], SIZES[index], wanted, what);
    }
    for (int index = 0; index < COUNT; index++) {
        size_t bytes = SIZES[index] * 3;
        kept[index] = flags == 0 ? realloc(kept[index], bytes) : rallocx(kept[index], bytes, flags);
        expect_dumped(kept[index], bytes, wanted, "grown");
        EXPECT(kept[index][SIZES[index] - 1] == 7, "the contents stay");
        dallocx(kept[index], flags);
    }
}

static int arena_with_hooks(unsigned *arena, extent_hooks_t *hooks) {
    *arena = GET(unsigned, "arenas.create");
    extent_hooks_t *before = GET(extent_hooks_t *, "arena.%u.extent_hooks", *arena);
    original = before->alloc;
    EXPECT(original != NULL, "hooks that may be called");
    *hooks = *before;
    hooks->alloc = alloc_undumped;
    return SET(extent_hooks_t *, hooks, "arena.%u.extent_hooks", *arena);
}

int main(int argc, char **argv) {
    static extent_hooks_t hooks, others;
    unsigned arena;
    int error = arena_with_hooks(&arena, &hooks);
    if (argc > 1 && strcmp(argv[1], "refused") == 0) {
        EXPECT(error == EFAULT, "%d", error);
        blocks(MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE, true, "without the option");
        return 0;
    }
    EXPECT(error == 0, "%d", error);
    EXPECT(GET(extent_hooks_t *, "arena.%u.extent_hooks", arena) == &hooks, "the table reads back");
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    for (int round = 0; round < 3; round++) {
        blocks(flags, false, "the arena's");
        blocks(0, true, "the process's own");
    }
    char *kept = mallocx(1 << 20, flags), *own = malloc(1 << 20);
    pid_t child = fork();
    if (child == 0) {
        expect_dumped(kept, 1 << 20, false, "in a child");
        expect_dumped(own, 1 << 20, true, "in a child");
        blocks(flags, false, "of a child's arena");
        dallocx(kept, flags);
        EXPECT(DO("arena.%u.destroy", arena) == 0, "it ends");
        blocks(0, true, "in memory that a child's arena had");
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT(status == 0, "%d", status);
    dallocx(kept, flags);
    free(own);
    EXPECT(DO("arena.%u.destroy", arena) == 0, "it ends");
    blocks(0, true, "in memory that an arena had");
    if (is_ours()) {
        EXPECT(calls == 0, "%d", calls);
        // Hooks that may have other purposes.
        arena_with_hooks(&arena, &others);
        others.dalloc = NULL;
        EXPECT(SET(extent_hooks_t *, &others, "arena.%u.extent_hooks", arena) == EFAULT, "another function more");
        EXPECT(SET(extent_hooks_t *, &hooks, "arena.0.extent_hooks") == EFAULT, "the process's own arena");
        unsigned made = 0;
        size_t length = sizeof made;
        extent_hooks_t *table = &hooks;
        EXPECT(mallctl("arenas.create", &made, &length, &table, sizeof table) == 0, "made with hooks");
        EXPECT(GET(extent_hooks_t *, "arena.%u.extent_hooks", made) == &hooks, "which it has");
        table = &others;
        EXPECT(mallctl("arenas.create", &made, &length, &table, sizeof table) == EAGAIN, "with others");
    }
    return 0;
}
