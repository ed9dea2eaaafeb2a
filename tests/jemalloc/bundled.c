// jemalloc itself within the program under names with a prefix, as Rust programs and databases bring it, beside the library that is linked: each
// serves whoever calls it, in threads, handlers and children.
#include "expect.h"

int _rjem_mallctl(const char *, void *, size_t *, void *, size_t);
void *_rjem_malloc(size_t);
void *_rjem_mallocx(size_t, int);
void *_rjem_realloc(void *, size_t);
void _rjem_free(void *);
size_t _rjem_malloc_usable_size(void *);

// A value of the program's own copy.
#define OWN(type, name)                                                                            \
    ({                                                                                             \
        type own_ = 0;                                                                             \
        size_t size_ = sizeof own_;                                                                \
        EXPECT(_rjem_mallctl(name, &own_, &size_, NULL, 0) == 0, "%s", name);                      \
        own_;                                                                                      \
    })

static void each_counts_its_own(void) {
    uint64_t *linked = GET(uint64_t *, "thread.allocatedp"), *own = OWN(uint64_t *, "thread.allocatedp");
    EXPECT(linked != own, "one counter");
    uint64_t of_linked = *linked, of_own = *own;
    void *block = malloc(5000);
    EXPECT(*linked - of_linked == malloc_usable_size(block) && *own == of_own, "the linked one counts");
    void *other = _rjem_malloc(70000);
    EXPECT(*linked - of_linked == malloc_usable_size(block), "the linked one does not");
    EXPECT(*own - of_own == _rjem_malloc_usable_size(other), "the own one counts");
    free(block);
    _rjem_free(other);
}

static void arenas_are_apart(void) {
    unsigned linked = GET(unsigned, "arenas.create"), own = OWN(unsigned, "arenas.create");
    void *block = mallocx(1000, MALLOCX_ARENA(linked) | MALLOCX_TCACHE_NONE);
    void *other = _rjem_mallocx(1000, MALLOCX_ARENA(own) | MALLOCX_TCACHE_NONE);
    unsigned found = 0;
    size_t length = sizeof found;
    EXPECT(mallctl("arenas.lookup", &found, &length, &block, sizeof block) == 0 && found == linked, "%u", found);
    length = sizeof found;
    EXPECT(_rjem_mallctl("arenas.lookup", &found, &length, &other, sizeof other) == 0 && found == own, "%u", found);
    if (is_ours()) {
        EXPECT(mallctl("arenas.lookup", &found, &length, &other, sizeof other) == EINVAL, "no block of the linked one");
    }
    EXPECT(DO("arena.%u.destroy", linked) == 0, "the linked one's ends");
    memset(other, 1, 1000);
    _rjem_free(other);
}

static void *works(void *number) {
    unsigned char mark = (unsigned char)(size_t)number;
    unsigned char *kept[32] = {NULL}, *others[32] = {NULL};
    for (int round = 0; round < 3000; round++) {
        int place = round % 32;
        size_t bytes = 1 + (size_t)round * 37 % 4000;
        EXPECT(!kept[place] || (kept[place][0] == mark && others[place][0] == (unsigned char)~mark), "contents stay");
        free(kept[place]);
        kept[place] = malloc(bytes);
        others[place] = _rjem_realloc(others[place], bytes);
        memset(kept[place], mark, bytes);
        memset(others[place], (unsigned char)~mark, bytes);
    }
    for (int place = 0; place < 32; place++) {
        free(kept[place]);
        _rjem_free(others[place]);
    }
    each_counts_its_own();
    return NULL;
}

static void threads(void) {
    pthread_t thread[16];
    for (int index = 0; index < 16; index++) {
        EXPECT(pthread_create(&thread[index], NULL, works, (void *)(size_t)index) == 0, "thread %d", index);
    }
    for (int index = 0; index < 16; index++) {
        pthread_join(thread[index], NULL);
    }
}

static volatile int stop;

static void *runs(void *unused) {
    while (!stop) {
        works(unused);
    }
    return NULL;
}

static void child(void *unused) {
    (void)unused;
    works(NULL);
    arenas_are_apart();
}

// Forks while another thread is within either.
static void children(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, runs, NULL) == 0, "a thread");
    for (int round = 0; round < 30; round++) {
        in_child(child, NULL);
    }
    stop = 1;
    pthread_join(thread, NULL);
}

int main(void) {
    EXPECT(!is_ours() == !strcmp(GET(const char *, "version"), OWN(const char *, "version")), "two versions");
    each_counts_its_own();
    arenas_are_apart();
    threads();
    bool yes = true;
    EXPECT(_rjem_mallctl("background_thread", NULL, NULL, &yes, sizeof yes) == 0, "the own one has threads");
    EXPECT(SET(bool, true, "background_thread") == 0, "so has the linked one");
    threads();
    children();
    return 0;
}
