/* Threads that allocate, check what they wrote, give blocks to each other, change their CPU and fork, for some seconds.
 * `churn THREADS SECONDS`. The front that serves them is in the statistics that it prints at the end. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHARED 512
#define OWN 256

struct block {
    size_t bytes;
    uint64_t seal;
};

static struct block *shared_blocks[SHARED];
static time_t until;
static long cpus;
static unsigned long rounds;

static uint64_t seal_of(const struct block *block) {
    return (uintptr_t)block * 0x9E3779B97F4A7C15u ^ block->bytes;
}

static struct block *make(size_t bytes) {
    struct block *block = malloc(bytes);
    if (!block) {
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
        fprintf(stderr, "churn: the block at %p was changed by somebody else\n", (void *)block);
        _exit(1);
    }
    free(block);
}

static size_t some_bytes(unsigned *seed) {
    unsigned kind = rand_r(seed) % 64;
    return sizeof(struct block) + rand_r(seed) % (kind == 0 ? 100000 : kind < 8 ? 4000 : 300);
}

static void fork_and_use(unsigned *seed) {
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 200; i++) {
            check_and_free(make(some_bytes(seed)));
        }
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "churn: a child ended with %x\n", status);
        _exit(2);
    }
}

static void move_somewhere(unsigned *seed) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(rand_r(seed) % cpus, &set);
    sched_setaffinity(0, sizeof set, &set); /* Refused for a CPU that was taken away. */
}

static void *work(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    struct block *own[OWN] = {0};
    unsigned long done = 0;
    while (time(NULL) < until) {
        for (int i = 0; i < 500; i++) {
            struct block **place = &own[rand_r(&seed) % OWN];
            check_and_free(*place);
            *place = make(some_bytes(&seed));
            if (i % 4 == 0) {
                check_and_free(__atomic_exchange_n(&shared_blocks[rand_r(&seed) % SHARED], *place, __ATOMIC_ACQ_REL));
                *place = NULL;
            }
            done++;
        }
        move_somewhere(&seed);
        if (rand_r(&seed) % 64 == 0) {
            fork_and_use(&seed);
        }
    }
    for (int i = 0; i < OWN; i++) {
        check_and_free(own[i]);
    }
    __atomic_fetch_add(&rounds, done, __ATOMIC_RELAXED);
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: churn THREADS SECONDS\n");
        return 64;
    }
    int threads = atoi(arguments[1]);
    pthread_t thread[64];
    cpus = sysconf(_SC_NPROCESSORS_CONF);
    until = time(NULL) + atoi(arguments[2]);
    for (int i = 0; i < threads && i < 64; i++) {
        if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1)) != 0) {
            return 3;
        }
    }
    for (int i = 0; i < threads && i < 64; i++) {
        pthread_join(thread[i], NULL);
    }
    for (int i = 0; i < SHARED; i++) {
        check_and_free(shared_blocks[i]);
    }
    printf("churn: %lu blocks checked by %d threads, page %ld, %ld CPUs\n", rounds, threads, sysconf(_SC_PAGESIZE), cpus);
    malloc_stats();
    return 0;
}
