// Threads that run out of memory at once. After half is freed, 99 % of it can be had again, also as other sizes.
#include "case.h"

enum { BLOCK = 4000, SHARE = 99 };
static const size_t MEMORY = 384 * MIB;

static pthread_barrier_t together;
static atomic_size_t had, freed, again, smaller, larger;

struct Taken {
    void **block;
    size_t count, most;
};

/* Takes blocks until malloc has answered null a few times: others may just hold what they give back. */
static void take(struct Taken *taken, size_t bytes) {
    for (int refused = 0; refused < 5 && taken->count < taken->most;) {
        char *block = malloc(bytes);
        if (block == NULL) {
            refused++;
            sched_yield();
            continue;
        }
        block[0] = block[bytes - 1] = 1;
        taken->block[taken->count++] = block;
    }
}

static size_t take_other(struct Taken *other, size_t bytes) {
    other->count = 0;
    take(other, bytes);
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < other->count; i++)
        free(other->block[i]);
    pthread_barrier_wait(&together);
    return other->count * bytes;
}

static void *exhaust(void *argument) {
    struct Taken *own = argument, *other = own + 1;
    pthread_barrier_wait(&together);
    take(own, BLOCK);
    atomic_fetch_add(&had, own->count * BLOCK);
    pthread_barrier_wait(&together);

    size_t kept = 0;
    for (size_t i = 0; i < own->count; i++)
        if (i % 2)
            own->block[kept++] = own->block[i];
        else
            free(own->block[i]);
    atomic_fetch_add(&freed, (own->count - kept) * BLOCK);
    own->count = kept;
    pthread_barrier_wait(&together);
    take(own, BLOCK);
    atomic_fetch_add(&again, (own->count - kept) * BLOCK);
    pthread_barrier_wait(&together);

    for (size_t i = 0; i < own->count; i++)
        free(own->block[i]);
    pthread_barrier_wait(&together);
    atomic_fetch_add(&smaller, take_other(other, 1000));
    atomic_fetch_add(&larger, take_other(other, 16000));
    return NULL;
}

static void run_out_in(int threads) {
    struct Taken *taken = outside(2 * threads * sizeof *taken);
    for (int i = 0; i < 2 * threads; i++) {
        taken[i].most = MEMORY / (i % 2 ? 900 : BLOCK);
        taken[i].block = outside(taken[i].most * sizeof(void *));
    }
    pthread_barrier_init(&together, NULL, threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * KIB);
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;
    EXPECT(file != NULL && fscanf(file, "%zu", &pages) == 1, "/proc/self/statm");
    fclose(file);
    struct rlimit limit = {pages * 4096 + MEMORY + threads * 80 * KIB, RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0, "a limit");
    pthread_t *thread = outside(threads * sizeof *thread);
    for (int i = 0; i < threads; i++)
        EXPECT(pthread_create(&thread[i], &attributes, exhaust, &taken[2 * i]) == 0, "thread %d", i);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    size_t all = atomic_load(&had);
    EXPECT(all > MEMORY * 3 / 4, "three quarters of the memory, not %zu MiB", all / MIB);
    EXPECT(again >= freed / 100 * SHARE, "99 %% of the freed half again, not %.2f %%", 100.0 * again / freed);
    EXPECT(smaller >= all / 100 * SHARE, "99 %% as blocks of 1000, not %.2f %%", 100.0 * smaller / all);
    EXPECT(larger >= all / 100 * SHARE, "99 %% as blocks of 16000, not %.2f %%", 100.0 * larger / all);
}

static void out_of_memory_in_1_thread(void) { run_out_in(1); }
static void out_of_memory_in_64_threads(void) { run_out_in(64); }

static const struct Case CASES[] = {
    CASE(out_of_memory_in_1_thread), CASE(out_of_memory_in_64_threads),
};

int main(int argc, char **argv) { return RUN(CASES); }
