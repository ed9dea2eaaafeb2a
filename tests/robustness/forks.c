// Children: by fork from busy threads, in handlers; by vfork, posix_spawn, clone and _Fork.
#include "case.h"
#include <linux/sched.h>
#include <spawn.h>
#include <sys/syscall.h>

extern char **environ;
enum { WORKERS = 8 };

/* What every child must be able to do at once. */
static void live_in_child(unsigned seed) {
    alarm(25 * (unsigned)number("ROBUSTNESS_PATIENCE", 1));
    static struct Slot slot[SLOTS];
    work(slot, SLOTS, seed, 300);
    free_all(slot, SLOTS);
    _exit(0);
}

static void *fork_a_few_times(void *argument) {
    for (int i = 0; i < 4; i++) {
        work_and_free((uintptr_t)argument, 100);
        pid_t child = fork();
        EXPECT(child >= 0, "to fork");
        if (child == 0) {
            pthread_t thread[2];
            start_workers(thread, 2);
            usleep(1000);
            stop_workers(thread, 2);
            live_in_child(i);
        }
        expect_success(child, "a child of one of 64 threads");
    }
    return NULL;
}

static void fork_from_64_threads(void) {
    pthread_t thread[64];
    for (uintptr_t i = 0; i < 64; i++)
        EXPECT(pthread_create(&thread[i], NULL, fork_a_few_times, (void *)i) == 0, "a thread");
    for (int i = 0; i < 64; i++)
        pthread_join(thread[i], NULL);
}

static void a_child_frees_what_threads_allocated(void) {
    static struct Slot slot[16][SLOTS];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 16; i++)
            work(slot[i], SLOTS, round * 16 + i, 300);
        pthread_t thread[WORKERS];
        start_workers(thread, WORKERS);
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 16; i++)
                free_all(slot[i], SLOTS);
            live_in_child(round);
        }
        expect_success(child, "a child that frees its parent's blocks");
        stop_workers(thread, WORKERS);
    }
}

static void children_of_children(void) {
    static struct Slot slot[SLOTS];
    work(slot, SLOTS, 1, 1000);
    for (int depth = 0; depth < 20; depth++) {
        pthread_t thread[2];
        start_workers(thread, 2);
        pid_t child = fork();
        if (child != 0) {
            stop_workers(thread, 2);
            expect_success(child, "a child of a child");
            if (depth == 0)
                return;
            _exit(0);
        }
        work(slot, SLOTS, depth, 200);
    }
    free_all(slot, SLOTS);
    _exit(0);
}

static volatile sig_atomic_t handled;

static void signal_every(int microseconds) {
    struct itimerval often = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &often, NULL);
}

static void fork_in_handler(int unused) {
    (void)unused;
    pid_t child = fork();
    if (child == 0)
        live_in_child(handled);
    if (child > 0)
        expect_success(child, "a child of a handler");
    // On a busy machine the next signal is there before the work goes on: that must end some time.
    if (++handled == number("ROBUSTNESS_FORKS", 200))
        signal_every(0);
}

static void fork_in_a_handler(void) {
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    signal_every(2000);
    double end = seconds() + number("ROBUSTNESS_SECONDS", 1);
    // On a busy machine a second may hold few: the runner's limit of time ends what never comes.
    while (seconds() < end || handled <= 10)
        work_and_free(1, 2000);
    signal_every(0);
    EXPECT(handled > 10, "handlers to run");
}

static volatile sig_atomic_t in_child;

static void fork_and_return(int unused) {
    (void)unused;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(25 * (unsigned)number("ROBUSTNESS_PATIENCE", 1));
        in_child = handled + 1;
        return;
    }
    if (child > 0)
        expect_success(child, "a child whose interrupted call goes on");
    if (++handled == number("ROBUSTNESS_FORKS", 200))
        signal_every(0);
}

/* In the child the call that was interrupted ends as if nothing had been; then everything is used. */
static void work_goes_on_in_the_child_of_a_handler(void) {
    struct sigaction action = {.sa_handler = fork_and_return, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    signal_every(1000);
    double end = seconds() + number("ROBUSTNESS_SECONDS", 1);
    while (seconds() < end || handled <= 10 || in_child != 0) {
        work_and_free(1, 500);
        if (in_child != 0)
            live_in_child(in_child);
    }
    signal_every(0);
    EXPECT(handled > 10, "handlers to run");
}

/* Starts children with `start` while threads allocate. */
static void with_busy_threads(pid_t (*start)(int), int times, const char *what) {
    pthread_t thread[WORKERS];
    start_workers(thread, WORKERS);
    for (int i = 0; i < times; i++) {
        pid_t child = start(i);
        EXPECT(child > 0, "%s", what);
        expect_success(child, what);
        free(malloc(5000));
    }
    stop_workers(thread, WORKERS);
}

static char *const TRUE_ARGUMENTS[] = {"true", NULL};

static pid_t start_by_vfork(int unused) {
    (void)unused;
    pid_t child = vfork();
    if (child == 0) {
        execve("/bin/true", TRUE_ARGUMENTS, environ);
        _exit(9);
    }
    return child;
}

static pid_t start_by_spawn(int unused) {
    (void)unused;
    pid_t child = -1;
    return posix_spawn(&child, "/bin/true", NULL, NULL, TRUE_ARGUMENTS, environ) == 0 ? child : -1;
}

/* No fork handler runs: what other threads held stays held. */
static pid_t start_by_clone(int seed) {
    pid_t child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        live_in_child(seed);
    return child;
}

static pid_t start_by_clone3(int seed) {
    struct clone_args arguments = {.exit_signal = SIGCHLD};
    pid_t child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child == 0)
        live_in_child(seed);
    return child;
}

static pid_t start_by_underscore_fork(int seed) {
    pid_t child = _Fork();
    if (child == 0)
        live_in_child(seed);
    return child;
}

static void vfork_and_exec(void) { with_busy_threads(start_by_vfork, 100, "a vforked child"); }
static void spawn(void) { with_busy_threads(start_by_spawn, 100, "a spawned child"); }

/* Each child copies what eight busy threads write to: a thousand would take minutes. */
static int orphans(void) { return number("ROBUSTNESS_FORKS", 40) > 200 ? 200 : number("ROBUSTNESS_FORKS", 40); }
static void clone_as_fork(void) { with_busy_threads(start_by_clone, orphans(), "a cloned child"); }
static void clone3_as_fork(void) { with_busy_threads(start_by_clone3, orphans(), "a cloned child"); }
static void underscore_fork(void) { with_busy_threads(start_by_underscore_fork, orphans(), "a _Forked child"); }

/* Not allowed by POSIX and done all the same: between vfork and exec the child allocates, beside threads that do. */
static void vforked_child_allocates(void) {
    pthread_t thread[WORKERS];
    start_workers(thread, WORKERS);
    for (volatile int i = 0; i < 200; i++) {
        void *mine = malloc(1000);
        pid_t child = vfork();
        if (child == 0) {
            void *block = malloc(3000);
            free(malloc(100000));
            free(mine);
            free(block);
            execve("/bin/true", TRUE_ARGUMENTS, environ);
            _exit(9);
        }
        expect_success(child, "a vforked child");
        work_and_free(i, 100);
    }
    stop_workers(thread, WORKERS);
}

static const struct Case CASES[] = {
    CASE(fork_from_64_threads), CASE(a_child_frees_what_threads_allocated),
    CASE(children_of_children), CASE(fork_in_a_handler),
    CASE(work_goes_on_in_the_child_of_a_handler), CASE(vfork_and_exec), CASE(spawn), CASE(clone_as_fork),
    {"fork_over_the_limit", fork_from_64_threads},
    {"fork_in_a_handler_over_the_limit", work_goes_on_in_the_child_of_a_handler},
    {"clone_over_the_limit", clone_as_fork}, CASE(clone3_as_fork), CASE(underscore_fork), CASE(vforked_child_allocates),
};

int main(int argc, char **argv) { return RUN(CASES); }
