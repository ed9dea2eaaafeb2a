// While threads fill the caches another lowers cache_limit: when the call returns, no more room is taken than the new
// limit says, however the threads are scheduled.
// on: preload locked static
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

extern int vcm_option_set(const char *, const char *) __attribute__((weak));
extern int vcm_stats_get(const char *, uint64_t *) __attribute__((weak));

static atomic_int stop;

static void *work(void *argument) {
    unsigned random = (unsigned)(uintptr_t)argument * 77777 + 1;
    void *block[400] = {0};
    while (!atomic_load(&stop)) {
        int place = next_random(&random) % 400;
        free(block[place]);
        block[place] = malloc(random % (random >> 28 ? 9000 : 260000) + 1);
    }
    for (int i = 0; i < 400; i++)
        free(block[i]);
    return NULL;
}

int main(void) {
    static const struct { const char *text; uint64_t bytes; } LOW[] = {{"0", 0}, {"64K", 64 * KIB}, {"1M", MIB}};
    enum { THREADS = 8, ROUNDS = 60 };
    pthread_t thread[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, (void *)i);
    for (int round = 0; round < ROUNDS; round++) {
        EXPECT(vcm_option_set("cache_limit", "64M") == 0, "the option to be set");
        usleep(20000);
        EXPECT(vcm_option_set("cache_limit", LOW[round % 3].text) == 0, "the option to be set");
        uint64_t room = 0;
        vcm_stats_get("cache_room", &room);
        EXPECT(room <= LOW[round % 3].bytes, "at most %s of room, not %llu, in round %d", LOW[round % 3].text,
               (unsigned long long)room, round);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
