// Everything at once for as long as it is told: threads that come and go, all sizes, blocks that change hands, children
// of every kind, plugins, signals, limits that change, releases, idle phases. Each block carries marks that are checked;
// after each round everything is freed and the memory that stays is measured.
//
//     make soak MINUTES=60
//
// It prints a table of rounds and a verdict; it fails where a block lost its contents, a child died, or what stays in
// memory grew between the first and the last quarter of the rounds.
#include "case.h"
#include <dlfcn.h>
#include <malloc.h>
#include "../../include/vcmalloc.h"

enum { MOST_THREADS = 24, SHARED = 512, MOST_ROUNDS = 100000 };

static atomic_long operations, churned, signals_handled, exchanged, tenants, refused;
static long forks, orphans, plugins, changes, releases;

static __typeof__(vcm_heap_new) *heap_new;
static __typeof__(vcm_heap_malloc) *heap_malloc;
static __typeof__(vcm_heap_push) *heap_push;
static __typeof__(vcm_heap_pop) *heap_pop;
static __typeof__(vcm_heap_destroy) *heap_destroy;
/* All tenants' heaps are below this one, whose limit they reach together; and one that all threads use. */
static vcm_heap above_all, common;

static int (*set_option)(const char *, const char *);
static size_t (*release_memory)(size_t);
static size_t (*statistics)(char *, size_t);

/* Blocks that any thread may take and that another one allocated. */
static _Atomic(unsigned char *) shared[SHARED];

static void exchange(unsigned *random) {
    size_t bytes = 16 + next_random(random) % 30000;
    unsigned char *mine = malloc(bytes);
    if (mine == NULL)
        return;
    memcpy(mine, &bytes, sizeof bytes);
    mine[bytes - 1] = (unsigned char)bytes;
    unsigned char *theirs = atomic_exchange(&shared[next_random(random) % SHARED], mine);
    if (theirs == NULL)
        return;
    memcpy(&bytes, theirs, sizeof bytes);
    EXPECT(theirs[bytes - 1] == (unsigned char)bytes, "a block from another thread to keep %zu bytes", bytes);
    free(theirs);
    atomic_fetch_add(&exchanged, 1);
}

/* A heap with blocks by its function and by malloc, of which others may have some; it ends in one of the three ways. */
static void have_a_tenant(unsigned *random) {
    enum { BLOCKS = 300 };
    unsigned char *block[BLOCKS];
    size_t bytes[BLOCKS];
    struct vcm_heap_options options = {.size = sizeof options, .parent = above_all, .limit = 4 << 20};
    vcm_heap heap = heap_new("soak", &options);
    EXPECT(heap != VCM_HEAP_NONE, "a heap");
    int gives_away = next_random(random) % 2;
    vcm_heap before = heap_push(heap);
    for (int i = 0; i < BLOCKS; i++) {
        bytes[i] = 16 + next_random(random) % (i % 50 ? 900 : 400000);
        block[i] = i % 3 ? malloc(bytes[i]) : heap_malloc(heap, bytes[i]);
        if (block[i] == NULL) {
            atomic_fetch_add(&refused, 1);
            continue;
        }
        block[i][0] = block[i][bytes[i] - 1] = (unsigned char)i;
        if (gives_away && i % 10 == 0)
            exchange(random);
    }
    heap_pop(before);
    int mode = gives_away ? 1 + next_random(random) % 2 : 0;
    int frees_first = next_random(random) % 2;
    for (int end = 0; end < 2; end++) {
        if (end == frees_first)
            EXPECT(heap_destroy(heap, mode) == 0, "the end of a heap");
        /* What was handed over, or keeps its heap waiting, lives. */
        else if (frees_first || gives_away)
            for (int i = 0; i < BLOCKS; i++) {
                EXPECT(!block[i] || (block[i][0] == (unsigned char)i && block[i][bytes[i] - 1] == (unsigned char)i), "a tenant's block");
                free(block[i]);
            }
    }
    atomic_fetch_add(&tenants, 1);
}

static void *short_life(void *seed) {
    work_and_free((unsigned)(uintptr_t)seed, 200);
    atomic_fetch_add(&churned, 1);
    return NULL;
}

static void *long_life(void *argument) {
    struct Slot slot[SLOTS_ON_STACK] = {0};
    unsigned random = (unsigned)(uintptr_t)argument * 7919 + 1;
    for (unsigned round = 0; !atomic_load(&stop_working); round++) {
        vcm_heap before = common && round % 4 == 1 ? heap_push(common) : VCM_HEAP_NONE;
        work(slot, SLOTS_ON_STACK, random + round, 200);
        if (before != VCM_HEAP_NONE)
            heap_pop(before);
        if (common && round % 32 == 3)
            have_a_tenant(&random);
        for (int i = 0; i < 40; i++)
            exchange(&random);
        atomic_fetch_add(&operations, 240);
        pthread_t child;
        if (round % 16 == 0 && pthread_create(&child, NULL, short_life, (void *)(uintptr_t)random) == 0)
            pthread_join(child, NULL);
    }
    free_all(slot, SLOTS_ON_STACK);
    return NULL;
}

static void allocate_in_handler(int unused) {
    (void)unused;
    int error = errno;
    char *block = malloc(300);
    if (block != NULL)
        block[299] = 1;
    free(block);
    free(malloc(20000));
    atomic_fetch_add(&signals_handled, 1);
    errno = error;
}

static void live_in_child(unsigned seed) {
    alarm(120);
    work_and_free(seed, 500);
    _exit(0);
}

static void have_children(unsigned seed) {
    pid_t child = fork();
    if (child == 0)
        live_in_child(seed);
    expect_success(child, "a child of fork");
    forks++;
    child = _Fork();
    if (child == 0)
        live_in_child(seed);
    expect_success(child, "a child of _Fork");
    orphans++;
}

static void exchange_with_plugin(void) {
    const char *path = getenv("SOAK_PLUGIN");
    void *plugin = path ? dlopen(path, RTLD_NOW) : NULL;
    if (plugin == NULL)
        return;
    char *(*makes)(size_t) = dlsym(plugin, "plugin_makes");
    void (*frees)(void *) = dlsym(plugin, "plugin_frees");
    char *block = makes(5000);
    EXPECT(block != NULL && block[4999] == 'p', "a plugin's block");
    free(block);
    frees(malloc(700));
    dlclose(plugin);
    plugins++;
}

static void change_a_limit(unsigned *random) {
    static const char *const LIMITS[] = {"0", "256K", "4M", "64M", "auto"};
    if (set_option == NULL)
        return;
    set_option("cache_limit", LIMITS[next_random(random) % 5]);
    set_option("release_delay", next_random(random) % 2 ? "100ms" : "1s");
    changes++;
}

static void load(double seconds_of_load, unsigned *random) {
    pthread_t thread[MOST_THREADS];
    int count = 2 + next_random(random) % (MOST_THREADS - 1);
    atomic_store(&stop_working, 0);
    for (int i = 0; i < count; i++)
        EXPECT(pthread_create(&thread[i], NULL, long_life, (void *)(uintptr_t)next_random(random)) == 0, "a thread");
    for (double end = seconds() + seconds_of_load; seconds() < end; usleep(50000)) {
        for (int i = 0; i < count; i++)
            pthread_kill(thread[i], SIGUSR1);
        switch (next_random(random) % 5) {
        case 0: have_children(*random); break;
        case 1: exchange_with_plugin(); break;
        case 2: change_a_limit(random); break;
        case 3: release_memory ? release_memory(0) : (size_t)malloc_trim(0); releases++; break;
        default: (void)mallinfo2();
        }
    }
    stop_workers(thread, count);
    for (int i = 0; i < SHARED; i++)
        free(atomic_exchange(&shared[i], NULL));
}

/* KiB of memory that is this process's own. */
static long resident_kib(void) {
    char line[200];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib;
}

static int ascending(const void *left, const void *right) {
    long a = *(const long *)left, b = *(const long *)right;
    return (a > b) - (a < b);
}

/* On a busy machine the janitor now and then does not get to run between two rounds: the middle value says more. */
static long median(long *values, long count) {
    qsort(values, count, sizeof *values, ascending);
    return count ? values[count / 2] : 0;
}

int main(int argc, char **argv) {
    double minutes = argc > 1 ? atof(argv[1]) : 60;
    static long stays[MOST_ROUNDS], peak;
    unsigned random = 1;
    set_option = (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "vcm_option_set");
    release_memory = (size_t(*)(size_t))dlsym(RTLD_DEFAULT, "vcm_release");
    statistics = (size_t(*)(char *, size_t))dlsym(RTLD_DEFAULT, "vcm_stats_text");
    struct sigaction action = {.sa_handler = allocate_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    heap_new = (__typeof__(heap_new))dlsym(RTLD_DEFAULT, "vcm_heap_new");
    if (heap_new) {
        heap_malloc = (__typeof__(heap_malloc))dlsym(RTLD_DEFAULT, "vcm_heap_malloc");
        heap_push = (__typeof__(heap_push))dlsym(RTLD_DEFAULT, "vcm_heap_push");
        heap_pop = (__typeof__(heap_pop))dlsym(RTLD_DEFAULT, "vcm_heap_pop");
        heap_destroy = (__typeof__(heap_destroy))dlsym(RTLD_DEFAULT, "vcm_heap_destroy");
        above_all = heap_new("above all", &(struct vcm_heap_options){.size = sizeof(struct vcm_heap_options), .limit = 24 << 20});
        common = heap_new("common", NULL);
    }
    printf("| round | minute | operations | RSS under load, KiB | RSS after it, KiB |\n|---|---|---|---|---|\n");
    long round = 0;
    for (double start = seconds(); round < MOST_ROUNDS && seconds() < start + minutes * 60; round++) {
        load(6, &random);
        long loaded = resident_kib();
        peak = loaded > peak ? loaded : peak;
        usleep(3500000);
        stays[round] = resident_kib();
        // Every round of a short run, about thirty of a long one.
        if (minutes <= 5 || round % (long)(minutes / 5) == 0)
            printf("| %ld | %.1f | %ld | %ld | %ld |\n", round, (seconds() - start) / 60, atomic_load(&operations), loaded,
                   stays[round]);
        fflush(stdout);
    }
    long quarter = round / 4 > 0 ? round / 4 : 1;
    long first = median(stays, quarter), last = median(stays + round - quarter, quarter);
    printf("\n%ld rounds; %ld operations with checked contents, %ld blocks freed by other threads, %ld short threads, %ld"
           " handlers that allocated, %ld children of fork, %ld of _Fork, %ld plugins, %ld changes of limits, %ld releases, %ld heaps of tenants,"
           " %ld requests that their limits refused\n",
           round, atomic_load(&operations), atomic_load(&exchanged), atomic_load(&churned), atomic_load(&signals_handled),
           forks, orphans, plugins, changes, releases, atomic_load(&tenants), atomic_load(&refused));
    printf("\nIn memory after a round: %ld KiB in the first quarter of the rounds, %ld KiB in the last; drift %+ld KiB.\n",
           first, last, last - first);
    static char text[8192];
    if (statistics != NULL && statistics(text, sizeof text) > 0)
        printf("\n```\n%s```\n", text);
    return last > first + first / 4 + 4096 ? 1 : 0;
}
