// A child of fork has its parent's arenas and its thread's, and may end them.
#include "expect.h"

static unsigned arena;
static void *block;

static void ends_it(void *unused) {
    (void)unused;
    EXPECT(GET(unsigned, "thread.arena") == arena, "%u", GET(unsigned, "thread.arena"));
    void *own = malloc(100);
    free(block);
    free(own);
    EXPECT(SET(unsigned, 0, "thread.arena") == 0, "back");
    EXPECT(DO("arena.%u.destroy", arena) == 0, "it ends");
    EXPECT(GET(unsigned, "arenas.create") == arena, "its number is used again");
    next_epoch();
}

// Its parent's other threads are not there, and no arena serves them.
static pthread_barrier_t chosen, forked;

static void *choose(void *unused) {
    (void)unused;
    EXPECT(SET(unsigned, arena, "thread.arena") == 0, "chosen");
    pthread_barrier_wait(&chosen);
    pthread_barrier_wait(&forked);
    return NULL;
}

static void is_alone(void *unused) {
    (void)unused;
    EXPECT(!is_ours() || GET(unsigned, "stats.arenas.0.nthreads") == 1, "and no janitor");
    next_epoch();
    EXPECT(GET(unsigned, "stats.arenas.%u.nthreads", arena) == 0, "none");
    EXPECT(GET(unsigned, "stats.arenas.0.nthreads") == 1, "%u", GET(unsigned, "stats.arenas.0.nthreads"));
    EXPECT(DO("arena.%u.destroy", arena) == 0, "it ends");
}

static void without_threads(void) {
    arena = GET(unsigned, "arenas.create");
    pthread_t thread;
    pthread_barrier_init(&chosen, NULL, 2);
    pthread_barrier_init(&forked, NULL, 2);
    pthread_create(&thread, NULL, choose, NULL);
    pthread_barrier_wait(&chosen);
    next_epoch();
    EXPECT(GET(unsigned, "stats.arenas.%u.nthreads", arena) == 1, "one");
    in_child(is_alone, NULL);
    EXPECT(DO("arena.%u.destroy", arena) == EFAULT, "here it serves a thread");
    pthread_barrier_wait(&forked);
    pthread_join(thread, NULL);
}

int main(void) {
    without_threads();
    arena = GET(unsigned, "arenas.create");
    EXPECT(SET(unsigned, arena, "thread.arena") == 0, "%u", arena);
    block = malloc(1000);
    for (int round = 0; round < 10; round++) {
        in_child(ends_it, NULL);
    }
    EXPECT(GET(unsigned, "thread.arena") == arena, "the parent's is as it was");
    free(block);
    return 0;
}
