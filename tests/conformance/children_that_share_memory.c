// Children that run in their parent's memory allocate, list their descriptors, resize and free what is their parent's, and start
// a program, end, or are ended, beside threads that allocate: each block is its owner's alone. Handlers allocate in the threads
// that make them, also between a child's end and the parent's next step. The arguments say how many children.
// on: glibc preload locked registered hardened static
// args: 400
// args.kernels: 60
// limit: 300
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { WORKERS = 4, MAKERS = 3, SLOTS = 200, STACK = 256 * 1024 };

struct slot {
    unsigned char *block;
    size_t bytes;
};

/* Shared by a maker and its children. */
struct maker {
    unsigned random, number, children;
    struct slot slot[SLOTS];
    unsigned char *from_child;
    size_t bytes_from_child;
    void *stack;
    atomic_int is_done;
    pthread_t thread;
};

static atomic_int stop;
static int is_ours, sees_clone;
extern char **environ;

static size_t any_size(unsigned *random) {
    unsigned kind = next_random(random) % 16, number = next_random(random);
    return kind == 0 ? 30000 + number % 11000 : 16 + number % 1000;
}

/* Frees, resizes or makes one block. */
static void step(struct slot *slots, unsigned *random) {
    unsigned at = next_random(random) % SLOTS;
    struct slot *slot = &slots[at];
    size_t wanted = any_size(random);
    if (slot->block != NULL) {
        EXPECT(holds(slot->block, slot->bytes, at), "a block of %zu bytes to be its owner's alone", slot->bytes);
        if (next_random(random) % 4 != 0) {
            free(slot->block);
            slot->block = NULL;
            return;
        }
    }
    unsigned char *block = realloc(slot->block, wanted);
    size_t kept = slot->block == NULL ? 0 : slot->bytes < wanted ? slot->bytes : wanted;
    EXPECT(block != NULL && holds(block, kept, at), "realloc to keep %zu bytes", kept);
    *slot = (struct slot){block, wanted};
    fill(block, wanted, at);
}

static void *work(void *argument) {
    struct slot *slots = calloc(SLOTS, sizeof *slots);
    unsigned random = (unsigned)(uintptr_t)argument * 77 + 1;
    while (!atomic_load(&stop))
        step(slots, &random);
    return NULL;
}

static void handle(int signal) {
    (void)signal;
    static const size_t bytes[] = {40, 600, 33000};
    unsigned char *block[3];
    for (int i = 0; is_ours && i < 3; i++) {
        block[i] = malloc(bytes[i]);
        if (block[i] != NULL)
            fill(block[i], bytes[i], 7);
    }
    for (int i = 0; is_ours && i < 3; i++) {
        EXPECT(block[i] == NULL || holds(block[i], bytes[i], 7), "a handler's block to be its own");
        free(block[i]);
    }
}

static void *pester(void *argument) {
    struct maker *makers = argument;
    while (!atomic_load(&stop)) {
        for (int i = 0; i < MAKERS; i++)
            if (!atomic_load(&makers[i].is_done))
                pthread_kill(makers[i].thread, SIGUSR1);
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    return NULL;
}

static void list_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int entries = 0;
    EXPECT(folder != NULL, "the list of descriptors");
    while (readdir(folder) != NULL)
        entries++;
    EXPECT(entries >= 3, "three descriptors and more");
    closedir(folder);
}

static void live_in_child(struct maker *mine) {
    list_descriptors();
    for (int i = 0; i < 30; i++)
        step(mine->slot, &mine->random);
    mine->bytes_from_child = any_size(&mine->random);
    mine->from_child = malloc(mine->bytes_from_child);
    EXPECT(mine->from_child != NULL, "a block in the child");
    fill(mine->from_child, mine->bytes_from_child, mine->children);
}

/* A program, an end of its own, an end by others: in turn. */
__attribute__((noreturn)) static void end_child(unsigned number) {
    char *arguments[] = {"true", NULL};
    if (number % 3 == 0)
        execve("/bin/true", arguments, environ);
    else if (number % 3 == 1)
        _exit(0);
    kill(getpid(), SIGKILL);
    _exit(9);
}

static void expect_child(pid_t child, unsigned number) {
    int status;
    EXPECT(child > 0, "a child");
    while (waitpid(child, &status, 0) != child)
        EXPECT(errno == EINTR, "to wait for the child");
    int expected = number % 3 == 2 ? SIGKILL : 0;
    EXPECT(status == expected, "child %u to end with %x, not %x", number, expected, status);
}

static void expect_block_of_child(struct maker *mine) {
    EXPECT(mine->from_child != NULL && holds(mine->from_child, mine->bytes_from_child, mine->children),
           "the child's block to be its own");
    free(mine->from_child);
    mine->from_child = NULL;
}

extern const ptrdiff_t __rseq_offset __attribute__((weak));

/* Whether the C library has registered this thread for restartable sequences. */
static int is_registered(void) {
    return &__rseq_offset != NULL
        && *(volatile int *)((char *)__builtin_thread_pointer() + __rseq_offset + 4) >= 0;
}

static int in_cloned(void *argument) {
    struct maker *mine = argument;
    live_in_child(mine);
    end_child(mine->children);
}

static void make_by_vfork(struct maker *mine) {
    pid_t child = vfork();
    if (child == 0) {
        live_in_child(mine);
        if (mine->children % 5 == 0) {
            /* A child of the child. */
            pid_t inner = vfork();
            if (inner == 0) {
                list_descriptors();
                _exit(0);
            }
            expect_child(inner, 0);
            list_descriptors();
        }
        end_child(mine->children);
    }
    expect_child(child, mine->children);
}

static void make_by_clone(struct maker *mine, int flags) {
    expect_child(clone(in_cloned, (char *)mine->stack + STACK, flags | CLONE_VM | SIGCHLD, mine), mine->children);
}

static void *make(void *argument) {
    struct maker *mine = argument;
    int was_registered = is_registered();
    unsigned children = mine->children;
    mine->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(mine->stack != MAP_FAILED, "a stack");
    for (; mine->children > 0; mine->children--) {
        for (int i = 0; i < 20; i++)
            step(mine->slot, &mine->random);
        /* One maker does not let its children wait for it: both stay under locks. */
        if (sees_clone && mine->number == 2)
            make_by_clone(mine, 0);
        else if (sees_clone && mine->children % 4 == 1)
            make_by_clone(mine, CLONE_VFORK);
        else
            make_by_vfork(mine);
        expect_block_of_child(mine);
        EXPECT(mine->number == 2 || is_registered() == was_registered, "the registration to come back");
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        EXPECT(mine->slot[i].block == NULL || holds(mine->slot[i].block, mine->slot[i].bytes, i), "block %u of %u", i, children);
        free(mine->slot[i].block);
    }
    atomic_store(&mine->is_done, 1);
    return NULL;
}

/* A call that fails has no child: the parent goes on as it was. */
static void refused(void) {
    int was_registered = is_registered();
    char stack[64];
    errno = 0;
    int answer = clone(in_cloned, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FS | CLONE_NEWNS, NULL);
    EXPECT(answer == -1 && errno == EINVAL, "a mixture that the kernel refuses, not %d", answer);
    answer = clone(in_cloned, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_NEWNS, NULL);
    EXPECT(answer == -1 && errno == EINVAL, "the same without waiting, not %d", answer);
    EXPECT(is_registered() == was_registered, "the registration to stay");
}

int main(int count, char **arguments) {
    static struct maker makers[MAKERS];
    unsigned children = count > 1 ? (unsigned)atoi(arguments[1]) : 400;
    pthread_t worker[WORKERS], pesterer;
    Dl_info of_clone, of_malloc;
    is_ours = dlsym(RTLD_DEFAULT, "vcm_version") != NULL;
    sees_clone = dladdr(dlsym(RTLD_DEFAULT, "clone"), &of_clone) && dladdr(dlsym(RTLD_DEFAULT, "malloc"), &of_malloc)
        && of_clone.dli_fbase == of_malloc.dli_fbase;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    if (sees_clone)
        refused();
    for (uintptr_t i = 0; i < WORKERS; i++)
        EXPECT(pthread_create(&worker[i], NULL, work, (void *)i) == 0, "a thread");
    for (unsigned i = 0; i < MAKERS; i++) {
        makers[i].number = i;
        makers[i].random = 1000 + i;
        makers[i].children = (children + i) / MAKERS;
        EXPECT(pthread_create(&makers[i].thread, NULL, make, &makers[i]) == 0, "a maker");
    }
    EXPECT(pthread_create(&pesterer, NULL, pester, makers) == 0, "a thread that sends signals");
    for (int i = 0; i < MAKERS; i++)
        while (!atomic_load(&makers[i].is_done))
            nanosleep(&(struct timespec){0, 1000000}, NULL);
    atomic_store(&stop, 1);
    pthread_join(pesterer, NULL);
    for (int i = 0; i < MAKERS; i++)
        pthread_join(makers[i].thread, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(worker[i], NULL);
    return 0;
}
