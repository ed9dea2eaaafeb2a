// Under a filter that ends the process for getpid, fork and sigaction work, in a child and in a child of vfork as well.
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
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter.program) == 0, "a filter");
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
    for (unsigned i = 0; i < 16; i++) {
        pid_t child = fork();
        if (child == 0)
            run_case(i);
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "case %u to end well, not with %x", i, status);
    }
    return 0;
}
