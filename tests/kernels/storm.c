/* Threads that allocate, check what they wrote and give blocks to each other for some seconds, while
 *   churn      each changes its CPU now and then, and forks
 *   affinity   each changes its CPU all the time, and another thread narrows and widens where they may run
 *   forks      each forks all the time; the child allocates, checks and forks once more
 * `storm KIND THREADS SECONDS`. The front that serves them is in the statistics that it prints at the end. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHARED 512
#define OWN 256
#define MOST 64

struct block {
    size_t bytes;
    uint64_t seal;
};

static struct block *shared_blocks[SHARED];
static pid_t numbers[MOST];
static time_t until;
static long cpus;
static unsigned long rounds, moves, children;
static int each_move, each_fork;

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

static void *work(void *argument) {
    int number = (int)(uintptr_t)argument;
    unsigned seed = number + 1;
    struct block *own[OWN] = {0};
    unsigned long done = 0;
    __atomic_store_n(&numbers[number], (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    for (unsigned turn = 0; time(NULL) < until; turn++) {
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
    while (time(NULL) < until) {
        pid_t thread = __atomic_load_n(&numbers[rand_r(&seed) % (uintptr_t)threads], __ATOMIC_ACQUIRE);
        if (thread) {
            allow(thread, rand_r(&seed) % cpus, 1 + rand_r(&seed) % cpus);
        }
        usleep(200);
    }
    return NULL;
}

int main(int count, char **arguments) {
    const char *kind = count == 4 ? arguments[1] : "";
    int is_affinity = strcmp(kind, "affinity") == 0, is_forks = strcmp(kind, "forks") == 0;
    if (!is_affinity && !is_forks && strcmp(kind, "churn") != 0) {
        fprintf(stderr, "usage: storm churn|affinity|forks THREADS SECONDS\n");
        return 64;
    }
    each_move = is_affinity ? 1 : is_forks ? 0 : 5;
    each_fork = is_affinity ? 0 : is_forks ? 1 : 300;
    uintptr_t threads = atoi(arguments[2]);
    threads = threads > MOST ? MOST : threads;
    pthread_t thread[MOST], herder;
    cpus = sysconf(_SC_NPROCESSORS_CONF);
    until = time(NULL) + atoi(arguments[3]);
    for (uintptr_t i = 0; i < threads; i++) {
        if (pthread_create(&thread[i], NULL, work, (void *)i) != 0) {
            return 3;
        }
    }
    if (is_affinity && pthread_create(&herder, NULL, herd, (void *)threads) != 0) {
        return 3;
    }
    for (uintptr_t i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
    }
    if (is_affinity) {
        pthread_join(herder, NULL);
    }
    for (int i = 0; i < SHARED; i++) {
        check_and_free(shared_blocks[i]);
    }
    printf("%s: %lu blocks checked by %d threads, %lu moves, %lu children\n", kind, rounds, (int)threads, moves, children);
    malloc_stats();
    return 0;
}
