/* Threads that allocate, check what they wrote and give blocks to each other for some seconds, while
 *   churn      each changes its CPU now and then, and forks
 *   affinity   each changes its CPU all the time, and another thread narrows and widens where they may run
 *   forks      each forks all the time; the child allocates, checks and forks once more
 *   births     each makes threads that allocate, give blocks away and end
 * `storm KIND THREADS SECONDS`. The front that serves them is in the statistics that it prints at the end. On vcmalloc it also says
 * how many slabs and bytes of tables that took, and fails where blocks are in use that nobody has. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHARED 512
#define OWN 256
#define MOST 1024
#define STACK (256 << 10)

struct block {
    size_t bytes;
    uint64_t seal;
};

static struct block *shared_blocks[SHARED];
static pid_t numbers[MOST];
static time_t until;
static long cpus;
static unsigned long rounds, moves, children, born;
static int each_move, each_fork, is_births;
static int (*get)(const char *, uint64_t *);
static size_t (*json)(char *, size_t);

static uint64_t seal_of(const struct block *block) {
    return (uintptr_t)block * 0x9E3779B97F4A7C15u ^ block->bytes;
}

static struct block *make(size_t bytes) {
    struct block *block = malloc(bytes);
    if (!block) {
        fprintf(stderr, "storm: no %zu bytes\n", bytes);
        _exit(3);
    }
    memset(block, (int)(bytes & 0xff), bytes);
    block->bytes = bytes;
    block->seal = seal_of(block);
    return block;
}

static void check_and_free(struct block *block) {
    if (!block) {
        return;
    }
    const unsigned char *bytes = (const unsigned char *)block;
    int broken = block->seal != seal_of(block);
    for (size_t at = sizeof *block; !broken && at < block->bytes; at++) {
        broken = bytes[at] != (block->bytes & 0xff);
    }
    if (broken) {
        fprintf(stderr, "storm: the block at %p was changed by somebody else\n", (void *)block);
        _exit(1);
    }
    free(block);
}

static size_t some_bytes(unsigned *seed) {
    unsigned kind = rand_r(seed) % 64;
    return sizeof(struct block) + rand_r(seed) % (kind == 0 ? 100000 : kind < 8 ? 4000 : 300);
}

static void fork_and_use(unsigned *seed, int generations) {
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 200; i++) {
            check_and_free(make(some_bytes(seed)));
        }
        for (int i = 0; i < SHARED; i += 7) {
            check_and_free(__atomic_exchange_n(&shared_blocks[i], NULL, __ATOMIC_ACQ_REL));
        }
        if (generations > 1) {
            fork_and_use(seed, generations - 1);
        }
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "storm: a child ended with %x\n", status);
        _exit(2);
    }
    __atomic_fetch_add(&children, 1, __ATOMIC_RELAXED);
}

/* Refused for a CPU that was taken away. */
static void allow(pid_t thread, int first, int count) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < count; i++) {
        CPU_SET((first + i) % cpus, &set);
    }
    if (sched_setaffinity(thread, sizeof set, &set) == 0) {
        __atomic_fetch_add(&moves, 1, __ATOMIC_RELAXED);
    }
}

/* A stack of the program's own: the C library keeps its own for the next thread, with a block of malloc's for each. */
static int start(pthread_t *thread, char *stack, void *(*run)(void *), void *argument) {
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setstack(&how, stack, STACK);
    int result = pthread_create(thread, &how, run, argument);
    pthread_attr_destroy(&how);
    return result;
}

static char *stacks(size_t count) {
    char *memory = mmap(NULL, count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        _exit(3);
    }
    return memory;
}

static void *short_life(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    struct block *own[40];
    for (int i = 0; i < 40; i++) {
        own[i] = make(some_bytes(&seed));
    }
    for (int i = 0; i < 40; i++) {
        struct block **place = i % 4 ? &own[i] : &shared_blocks[rand_r(&seed) % SHARED];
        check_and_free(__atomic_exchange_n(place, i % 4 ? NULL : own[i], __ATOMIC_ACQ_REL));
    }
    return NULL;
}

static void give_birth(char *stack, unsigned seed) {
    pthread_t child;
    if (start(&child, stack, short_life, (void *)(uintptr_t)seed) != 0) {
        fprintf(stderr, "storm: no thread\n");
        _exit(3);
    }
    pthread_join(child, NULL);
    __atomic_fetch_add(&born, 1, __ATOMIC_RELAXED);
}

static void *work(void *argument) {
    int number = (int)(uintptr_t)argument;
    unsigned seed = number + 1;
    struct block *own[OWN] = {0};
    unsigned long done = 0;
    char *stack = is_births ? stacks(1) : NULL;
    __atomic_store_n(&numbers[number], (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    for (unsigned turn = 0; turn == 0 || time(NULL) < __atomic_load_n(&until, __ATOMIC_RELAXED); turn++) {
        for (int i = 0; i < 100; i++) {
            struct block **place = &own[rand_r(&seed) % OWN];
            check_and_free(*place);
            *place = make(some_bytes(&seed));
            if (i % 4 == 0) {
                check_and_free(__atomic_exchange_n(&shared_blocks[rand_r(&seed) % SHARED], *place, __ATOMIC_ACQ_REL));
                *place = NULL;
            }
            done++;
        }
        if (each_move && turn % each_move == 0) {
            allow(0, rand_r(&seed) % cpus, 1);
        }
        if (each_fork && turn % each_fork == (unsigned)number % each_fork) {
            fork_and_use(&seed, each_fork == 1 ? 2 : 1);
        }
        if (is_births) {
            give_birth(stack, rand_r(&seed));
        }
    }
    for (int i = 0; i < OWN; i++) {
        check_and_free(own[i]);
    }
    __atomic_fetch_add(&rounds, done, __ATOMIC_RELAXED);
    return NULL;
}

/* Moves the others from outside, which takes their CPU away in the middle of what they do. */
static void *herd(void *threads) {
    unsigned seed = 77;
    while (time(NULL) < __atomic_load_n(&until, __ATOMIC_RELAXED)) {
        pid_t thread = __atomic_load_n(&numbers[rand_r(&seed) % (uintptr_t)threads], __ATOMIC_ACQUIRE);
        if (thread) {
            allow(thread, rand_r(&seed) % cpus, 1 + rand_r(&seed) % cpus);
        }
        usleep(200);
    }
    return NULL;
}

static uint64_t figure(const char *key) {
    uint64_t value = 0;
    if (get && get(key, &value) != 0) {
        fprintf(stderr, "storm: no figure %s\n", key);
        _exit(3);
    }
    return value;
}

/* The statistics as JSON name as many slabs; 0 where they do not. */
static uint64_t slabs_in_json(void) {
    static char text[1 << 20];
    size_t length = json(text, sizeof text);
    const char *found = length < sizeof text ? strstr(text, "\"slabs\":") : NULL;
    return found ? strtoull(found + strlen("\"slabs\":"), NULL, 10) : 0;
}

/* Nothing is in use that was not before the threads began. */
static int say_figures(uint64_t before, time_t began) {
    uint64_t after = figure("live"), slabs = figure("slabs"), named = slabs_in_json();
    printf("figures: %llu slabs, %llu KiB of metadata, %llu KiB resident, room at most %llu of %llu KiB, %lld bytes lost, %ld s\n",
        (unsigned long long)slabs, (unsigned long long)figure("metadata") >> 10, (unsigned long long)figure("resident") >> 10,
        (unsigned long long)figure("cache_room_most") >> 10, (unsigned long long)figure("cache_limit") >> 10,
        (long long)(after - before), (long)(time(NULL) - began));
    if (named != slabs) {
        fprintf(stderr, "storm: %llu slabs in JSON\n", (unsigned long long)named);
    }
    return after == before && named == slabs ? 0 : 4;
}

static int run(uintptr_t threads, int seconds, int is_affinity) {
    static pthread_t thread[MOST], herder;
    char *stack = stacks(threads + 1);
    until = time(NULL) + 100000;
    for (uintptr_t i = 0; i < threads; i++) {
        if (start(&thread[i], stack + i * STACK, work, (void *)i) != 0) {
            return 3;
        }
    }
    if (is_affinity && start(&herder, stack + threads * STACK, herd, (void *)threads) != 0) {
        return 3;
    }
    __atomic_store_n(&until, time(NULL) + seconds, __ATOMIC_RELAXED);
    for (uintptr_t i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
    }
    if (is_affinity) {
        pthread_join(herder, NULL);
    }
    for (int i = 0; i < SHARED; i++) {
        check_and_free(shared_blocks[i]);
    }
    return 0;
}

int main(int count, char **arguments) {
    const char *kind = count == 4 ? arguments[1] : "";
    int is_affinity = strcmp(kind, "affinity") == 0, is_forks = strcmp(kind, "forks") == 0;
    is_births = strcmp(kind, "births") == 0;
    if (!is_affinity && !is_forks && !is_births && strcmp(kind, "churn") != 0) {
        fprintf(stderr, "usage: storm churn|affinity|forks|births THREADS SECONDS\n");
        return 64;
    }
    each_move = is_affinity ? 1 : is_forks || is_births ? 0 : 5;
    each_fork = is_affinity || is_births ? 0 : is_forks ? 1 : 300;
    uintptr_t threads = atoi(arguments[2]);
    threads = threads > MOST ? MOST : threads;
    get = (int (*)(const char *, uint64_t *))dlsym(RTLD_DEFAULT, "vcm_stats_get");
    json = (size_t(*)(char *, size_t))dlsym(RTLD_DEFAULT, "vcm_stats_json");
    cpus = sysconf(_SC_NPROCESSORS_CONF);
    time_t began = time(NULL);
    setvbuf(stdout, NULL, _IONBF, 0);
    /* With the second thread vcmalloc makes one of its own, which has a block of the C library's. */
    give_birth(stacks(1), 1);
    for (int i = 0; i < SHARED; i++) {
        check_and_free(__atomic_exchange_n(&shared_blocks[i], NULL, __ATOMIC_ACQ_REL));
    }
    born = 0;
    uint64_t before = figure("live");
    int result = run(threads, atoi(arguments[3]), is_affinity);
    if (result == 0) {
        result = get && json ? say_figures(before, began) : 0;
        printf("%s: %lu blocks checked by %d threads, %lu moves, %lu children, %lu threads born\n", kind, rounds, (int)threads,
            moves, children, born);
        malloc_stats();
    }
    return result;
}
