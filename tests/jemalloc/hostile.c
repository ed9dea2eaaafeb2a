// Calls that no program should make, and threads, handlers and children that ask: an error or an answer, no crash and no hang.
#include "expect.h"
#include <sys/time.h>

static uint64_t seed = 88172645463325252ull;
static uint64_t number(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static void nulls(void) {
    size_t mib[64] = {0}, length = 8;
    char value[8];
    EXPECT(mallctl(NULL, value, &length, NULL, 0) == EINVAL, "no name");
    EXPECT(mallctlnametomib(NULL, mib, &length) == EINVAL, "no name");
    EXPECT(mallctlnametomib("epoch", NULL, &length) == EINVAL && mallctlnametomib("epoch", mib, NULL) == EINVAL, "no room");
    EXPECT(mallctlbymib(NULL, 3, value, &length, NULL, 0) == EINVAL, "no place");
    EXPECT(mallctlbymib(mib, 64, value, &length, NULL, 0) == ENOENT, "too long");
    EXPECT(mallctlbymib(mib, SIZE_MAX, value, &length, NULL, 0) == ENOENT, "longer than memory");
    EXPECT(mallctlbymib(mib, 0, value, &length, NULL, 0) == ENOENT, "of no parts");
    EXPECT(mallctl("arenas.lookup", value, &length, NULL, 0) == EINVAL, "no block");
    void *none = NULL, *stack = value, *odd = (void *)12345;
    unsigned arena;
    length = sizeof arena;
    EXPECT(mallctl("arenas.lookup", &arena, &length, &none, 8) == EINVAL, "null is no block");
    EXPECT(mallctl("arenas.lookup", &arena, &length, &stack, 8) == EINVAL, "nor is the stack");
    EXPECT(mallctl("arenas.lookup", &arena, &length, &odd, 8) == EINVAL, "nor an address without memory");
    EXPECT(SET(unsigned, 4000000000u, "tcache.destroy") == EFAULT && SET(unsigned, 5, "tcache.flush") == EFAULT, "no cache");
    EXPECT(SET(unsigned, 4000000000u, "thread.arena") == EFAULT, "no arena");
    char name[3000];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = 0;
    EXPECT(mallctl(name, value, &length, NULL, 0) == ENOENT, "a long name");
    for (size_t index = 0; index < sizeof name - 1; index++) {
        name[index] = index % 2 ? '.' : '0';
    }
    EXPECT(mallctl(name, value, &length, NULL, 0) == ENOENT, "a deep name");
}

// Places of random numbers: most are none.
static void places(void) {
    for (int round = 0; round < 200000; round++) {
        size_t mib[7], parts = number() % 8, length = number() % 10;
        char value[16];
        for (size_t part = 0; part < parts; part++) {
            mib[part] = number() % 3 ? number() % 420 : number();
        }
        // Nothing is written: what would take effect is tried by the others.
        int error = mallctlbymib(mib, parts, value, &length, NULL, 0);
        EXPECT(error == 0 || error == ENOENT || error == EINVAL || error == EPERM || error == EFAULT, "%d", error);
    }
}

// Names with a byte more, less or another.
static void names(void) {
    static const char *const known[] = {"stats.arenas.0.bins.3.curregs", "arena.0.dirty_decay_ms", "opt.narenas",
        "thread.tcache.enabled", "arenas.bin.17.slab_size", "stats.arenas.4096.lextents.12.curlextents", "prof.active"};
    for (int round = 0; round < 200000; round++) {
        char name[64], value[16];
        size_t length = number() % 10;
        snprintf(name, sizeof name, "%s", known[number() % (sizeof known / sizeof *known)]);
        for (int change = number() % 4; change >= 0; change--) {
            name[number() % (strlen(name) + 1)] = number() % 4 ? "0123456789.#"[number() % 12] : (char)number();
            name[sizeof name - 1] = 0;
        }
        int error = mallctl(name, value, &length, NULL, 0);
        EXPECT(error == 0 || error == ENOENT || error == EINVAL || error == EPERM || error == EFAULT, "%s: %d", name, error);
        size_t mib[8], parts = number() % 9;
        if (mallctlnametomib(name, mib, &parts) == 0) {
            mallctlbymib(mib, parts, value, &length, NULL, 0);
        }
    }
}

static void *asks(void *unused) {
    (void)unused;
    for (int round = 0; round < 300; round++) {
        uint64_t next = 1;
        size_t length = sizeof next;
        mallctl("epoch", &next, &length, &next, sizeof next);
        size_t allocated = GET(size_t, "stats.allocated");
        EXPECT(allocated < (size_t)1 << 40, "%zu", allocated);
        unsigned arena = 0;
        length = sizeof arena;
        if (mallctl("arenas.create", &arena, &length, NULL, 0) == 0) {
            void *block = mallocx(100, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
            if (round % 3 == 0) {
                EXPECT(SET(unsigned, arena, "thread.arena") == 0, "%u", arena);
                free(malloc(1000));
                EXPECT(SET(unsigned, 0, "thread.arena") == 0, "back");
            }
            dallocx(block, MALLOCX_TCACHE_NONE);
            EXPECT(DO("arena.%u.destroy", arena) == 0, "%u", arena);
        }
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread[32];
    for (int index = 0; index < 32; index++) {
        EXPECT(pthread_create(&thread[index], NULL, asks, NULL) == 0, "thread %d", index);
    }
    for (int index = 0; index < 32; index++) {
        pthread_join(thread[index], NULL);
    }
}

static volatile sig_atomic_t handled;

static void handler(int signal) {
    (void)signal;
    uint64_t next = 1;
    size_t length = sizeof next;
    int error = mallctl("epoch", &next, &length, &next, sizeof next);
    EXPECT(error == 0 || error == EAGAIN, "%d", error);
    unsigned arena;
    length = sizeof arena;
    if (mallctl("arenas.create", &arena, &length, NULL, 0) == 0) {
        dallocx(mallocx(100, MALLOCX_ARENA(arena)), 0);
        DO("arena.%u.destroy", arena);
    }
    DO("arena.0.purge");
    length = sizeof next;
    mallctl("stats.arenas.0.pactive", &next, &length, NULL, 0);
    handled++;
}

static void handlers(void) {
    signal(SIGALRM, handler);
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    void *held[64] = {NULL};
    while (handled < 1000) {
        void **place = &held[number() % 64];
        free(*place);
        *place = malloc(number() % 5 ? number() % 2000 : number() % 2000000);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (int index = 0; index < 64; index++) {
        free(held[index]);
    }
}

static void *runs(void *stop) {
    while (!*(volatile int *)stop) {
        free(malloc(number() % 100000));
        asks(NULL);
    }
    return NULL;
}

static void child(void *unused) {
    (void)unused;
    asks(NULL);
    malloc_stats_print(NULL, NULL, "gabl");
}

static void children(void) {
    volatile int stop = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, runs, (void *)&stop);
    for (int round = 0; round < 20; round++) {
        in_child(child, NULL);
    }
    stop = 1;
    pthread_join(thread, NULL);
}

static void ignores(void *opaque, const char *text) {
    (void)text;
    ++*(int *)opaque;
}

int main(void) {
    static int lines;
    malloc_stats_print(ignores, &lines, NULL);
    EXPECT(lines > 0, "statistics");
    // jemalloc reads what null leads to, waits for itself in handlers, and crashes where an arena ends while figures are read.
    if (!is_ours()) {
        return 0;
    }
    nulls();
    places();
    names();
    handlers();
    threads();
    freopen("/dev/null", "w", stderr);
    children();
    return 0;
}
