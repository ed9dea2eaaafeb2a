// Under a filter that ends the process for getpid, fork and sigaction work, in a child and in a child of vfork as well, and threads
// allocate on.
// on: preload locked hardened
// flags: -pthread
#include "filter.h"
#include "growth.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static struct filter filter;

static void install(void) {
    begin_filter(&filter);
    ANSWER(&filter, SECCOMP_RET_KILL_PROCESS, SYS_getpid);
    end_filter(&filter, SECCOMP_RET_ALLOW);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter.program) == 0, "a filter");
}

static void handle(int number) {
    (void)number;
}

static void allocate(void) {
    for (size_t i = 0; i < 9999; i++)
        free(malloc(i * 9));
}

static void set_actions(void) {
    struct sigaction before, now = {.sa_handler = handle};
    EXPECT(sigaction(SIGSEGV, NULL, &before) == 0, "an action");
    EXPECT(sigaction(SIGSEGV, &now, &before) == 0, "an action before");
    EXPECT(sigaction(SIGSEGV, NULL, &before) == 0 && before.sa_handler == handle, "the handler");
}

static void fork_then_allocate(void) {
    pid_t child = fork();
    if (child == 0) {
        allocate();
        set_actions();
        _exit(3);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3,
           "a forked child to end with 3, not %x", status);
}

static void make_one_by_clone(void) {
    pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        allocate();
        _exit(3);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3,
           "a cloned child to end with 3, not %x", status);
}

static void *do_nothing(void *nothing) {
    free(malloc(9));
    return nothing;
}

static void have_a_thread(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, do_nothing, NULL) == 0, "a thread");
    pthread_join(thread, NULL);
}

static int is_done;

static void *allocate_on(void *nothing) {
    while (!__atomic_load_n(&is_done, __ATOMIC_RELAXED)) {
        void *block[50];
        for (int i = 0; i < 50; i++)
            block[i] = malloc(i * 4000);
        for (int i = 0; i < 50; i++)
            free(block[i]);
        usleep(100);
    }
    return nothing;
}

/* Ticks ask for CPUs. */
static void have_ticks(void) {
    int (*set)(const char *, const char *) = function("vcm_option_set");
    EXPECT(set("release_delay", "100ms") == 0, "an option");
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(threads + i, NULL, allocate_on, NULL) == 0, "a thread");
    usleep(100000);
    install();
    sleep(1);
    __atomic_store_n(&is_done, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    _exit(0);
}

static void (*const works[])(void) = {set_actions, fork_then_allocate, make_one_by_clone, allocate};

static void run_case(unsigned number) {
    free(malloc(99));
    if (number & 4)
        have_a_thread();
    pid_t borrower = number & 8 ? vfork() : 0;
    if (borrower == 0) {
        install();
        works[number & 3]();
        _exit(0);
    }
    int status = 0;
    waitpid(borrower, &status, 0);
    struct sigaction own;
    EXPECT(sigaction(SIGSEGV, NULL, &own) == 0 && own.sa_handler == SIG_DFL, "the action that the parent had");
    _exit(status != 0);
}

int main(void) {
    for (unsigned i = 0; i <= 16; i++) {
        pid_t child = fork();
        if (child == 0)
            i < 16 ? run_case(i) : have_ticks();
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "case %u to end well, not with %x", i, status);
    }
    return 0;
}
