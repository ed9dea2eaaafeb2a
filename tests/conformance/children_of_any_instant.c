// Children are made, by fork and by a raw clone, while threads allocate, use streams, and work in a library whose handler of
// fork takes its lock. Each child has what its thread had, untouched, can do everything with the heap, also in threads, and
// makes a child of its own. The argument says how many.
// on: glibc preload locked hardened static
// args: 40
// args.preload: 120
// args.locked: 120
// args.kernels: 10
// limit: 240
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { THREADS = 6, SLOTS = 300 };

struct holding {
    unsigned char *block[SLOTS];
    size_t bytes[SLOTS];
    unsigned random;
};

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop;

static void before(void) {
    pthread_mutex_lock(&own);
}

static void after(void) {
    pthread_mutex_unlock(&own);
}

static void early(int count, char **arguments, char **environment) {
    (void)count, (void)arguments, (void)environment;
    pthread_atfork(before, after, after);
}

__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **, char **) = early;

static size_t any_size(unsigned *random) {
    unsigned kind = next_random(random) % 100, number = next_random(random);
    return 1 + number % (kind < 80 ? 3000 : kind < 97 ? 60000 : 1500000);
}

/* Frees, resizes or makes one block; each has contents of its slot, and a cleared one is zero. */
static void step(struct holding *mine) {
    unsigned slot = next_random(&mine->random) % SLOTS;
    unsigned char *block = mine->block[slot];
    size_t bytes = mine->bytes[slot], wanted = any_size(&mine->random);
    if (block != NULL) {
        EXPECT(holds(block, bytes < 4096 ? bytes : 4096, slot), "a block to be its owner's alone");
        mine->block[slot] = next_random(&mine->random) % 4 == 0 ? realloc(block, wanted) : (free(block), NULL);
    } else if (next_random(&mine->random) % 4 == 0) {
        mine->block[slot] = calloc(1, wanted);
        EXPECT(mine->block[slot] != NULL && is_zero(mine->block[slot], wanted), "a block that is zero");
    } else {
        mine->block[slot] = malloc(wanted);
        EXPECT(mine->block[slot] != NULL, "a block");
    }
    mine->bytes[slot] = wanted;
    if (mine->block[slot] != NULL)
        fill(mine->block[slot], wanted < 4096 ? wanted : 4096, slot);
}

static void *work(void *argument) {
    struct holding *mine = argument;
    for (int i = 1; !atomic_load(&stop); i++) {
        step(mine);
        if (i % 64 == 0) {
            pthread_mutex_lock(&own);
            free(malloc(300000));
            free(malloc(100));
            pthread_mutex_unlock(&own);
        } else if (i % 64 == 32) {
            FILE *file = fopen("/dev/null", "w");
            EXPECT(file != NULL && fprintf(file, "%d\n", i) > 0 && fclose(file) == 0, "a stream");
        }
    }
    return NULL;
}

static void *work_in_child(void *argument) {
    for (int i = 0; i < 150; i++)
        step(argument);
    return NULL;
}

static void expect_child(pid_t child, const char *what) {
    int status;
    EXPECT(child >= 0 && waitpid(child, &status, 0) == child && status == 0, "%s to succeed, not status %x", what, status);
}

static void live_as_child(struct holding *mine, unsigned number) {
    static struct holding holding[2];
    pthread_t thread[2];
    alarm(100);
    for (int i = 0; i < 200; i++)
        step(mine);
    for (unsigned i = 0; i < 2; i++) {
        holding[i].random = 2 * number + i + 1;
        EXPECT(pthread_create(&thread[i], NULL, work_in_child, &holding[i]) == 0, "a thread in the child");
    }
    if (number % 4 == 0) {
        pid_t child = fork();
        if (child == 0) {
            work_in_child(mine);
            _exit(0);
        }
        expect_child(child, "the child's child");
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    FILE *file = fopen("/dev/null", "w");
    EXPECT(file != NULL && fclose(file) == 0, "a stream in the child");
    _exit(0);
}

int main(int count, char **arguments) {
    static struct holding mine, holding[THREADS];
    pthread_t thread[THREADS];
    unsigned children = count > 1 ? (unsigned)atoi(arguments[1]) : 60;
    int is_ours = dlsym(RTLD_DEFAULT, "vcm_version") != NULL;
    mine.random = 1;
    work_in_child(&mine);
    for (unsigned i = 0; i < THREADS; i++) {
        holding[i].random = 100 + i;
        EXPECT(pthread_create(&thread[i], NULL, work, &holding[i]) == 0, "a thread");
    }
    for (unsigned i = 0; i < children; i++) {
        for (int steps = 0; steps < 20; steps++)
            step(&mine);
        /* A raw clone runs no handlers, so the C library's locks are as they were: such a child only allocates, where that is
           ours. */
        pid_t child = i % 5 == 4 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
        if (child == 0 && i % 5 != 4)
            live_as_child(&mine, i);
        if (child == 0) {
            if (is_ours)
                work_in_child(&mine);
            _exit(0);
        }
        expect_child(child, "child");
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
