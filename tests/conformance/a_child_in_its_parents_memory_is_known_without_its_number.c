// A child in its parent's memory leaves the parent its handlers and its calls, also where it has its parent's number in a namespace, and where a
// filter keeps both from asking for numbers.
// on: glibc preload locked hardened
#include "filter.h"
#include "growth.h"
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static struct filter own, childs;

static void install(struct filter *filter, int number) {
    begin_filter(filter);
    answer(filter, &number, 1, SECCOMP_RET_KILL_PROCESS);
    end_filter(filter, SECCOMP_RET_ALLOW);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter->program) == 0, "a filter");
}

static int be_a_child(void *nothing) {
    (void)nothing;
    for (int number = 1; number < 32; number++)
        signal(number, SIG_DFL);
    install(&childs, SYS_mmap);
    _exit(0);
}

static void end_well(int number) {
    (void)number;
    _exit(0);
}

static void end_by_own_handler(pid_t child) {
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "a child to end well, not with %x", status);
    EXPECT(grows(), "memory after the child");
    *(volatile char *)NULL;
    _exit(2);
}

static int be_the_first_of_a_namespace(void *nothing) {
    (void)nothing;
    static char stack[65536];
    signal(SIGSEGV, end_well);
    free(malloc(100));
    end_by_own_handler(clone(be_a_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_NEWPID | SIGCHLD, NULL));
    return 2;
}

static void make_a_child_without_numbers(void) {
    signal(SIGSEGV, end_well);
    install(&own, SYS_getpid);
    pid_t child = vfork();
    if (child == 0)
        be_a_child(NULL);
    end_by_own_handler(child);
}

static void expect_a_good_end(pid_t child, const char *what) {
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "%s to end well, not with %x", what, status);
}

int main(void) {
    static char stack[1 << 20];
    free(malloc(10));
    pid_t child = fork();
    if (child == 0)
        make_a_child_without_numbers();
    expect_a_good_end(child, "the process without numbers");
    child = clone(be_the_first_of_a_namespace, stack + sizeof stack, CLONE_NEWPID | SIGCHLD, NULL);
    EXPECT(child > 0 || errno == EPERM, "a namespace");
    if (child > 0)
        expect_a_good_end(child, "the first process of a namespace");
    return 0;
}
