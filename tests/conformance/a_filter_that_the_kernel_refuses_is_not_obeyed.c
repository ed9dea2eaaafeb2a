// A filter of system calls, or the strict mode, that the kernel refuses does not hold: memory is to be had as before, and errno is the
// kernel's. One that the kernel takes is obeyed, also where its answer is a descriptor.
// on: preload locked hardened
// flags: -pthread
#include "filter.h"
#include "growth.h"
#include <pthread.h>
#include <sys/wait.h>

#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER 8
#endif

static struct filter few, all;

static void allow_few_and_all(void) {
    begin_filter(&few);
    ANSWER(&few, SECCOMP_RET_ALLOW, SYS_read, SYS_write, SYS_exit_group, SYS_brk);
    end_filter(&few, SECCOMP_RET_KILL_PROCESS);
    begin_filter(&all);
    end_filter(&all, SECCOMP_RET_ALLOW);
}

static void be_nobody(void) {
    EXPECT(geteuid() != 0 || setuid(65534) == 0, "an unprivileged user");
}

static void allow_installing(void) {
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
}

static void by_prctl_without_the_right(void) {
    be_nobody();
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &few.program) == -1 && errno == EACCES, "EACCES");
}

static void by_raw_prctl_without_the_right(void) {
    be_nobody();
    EXPECT(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &few.program, 0, 0) == -1 && errno == EACCES, "EACCES");
}

static void by_seccomp_with_an_unknown_flag(void) {
    allow_installing();
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0x4000, &few.program) == -1 && errno == EINVAL, "EINVAL");
}

static int is_apart, may_end;

static void *be_apart(void *nothing) {
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all.program) == 0, "a filter of one thread");
    __atomic_store_n(&is_apart, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
        usleep(1000);
    return nothing;
}

/* The answer is then the number of that thread. */
static void for_threads_of_which_one_has_its_own(void) {
    allow_installing();
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, be_apart, NULL) == 0, "a thread");
    while (!__atomic_load_n(&is_apart, __ATOMIC_ACQUIRE))
        usleep(1000);
    errno = 33;
    long answer = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &few.program);
    EXPECT(answer > 0 && errno == 33, "the number of a thread, not %ld", answer);
    __atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

static void strictly_behind_a_filter(void) {
    allow_installing();
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all.program) == 0, "a filter");
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == -1 && errno == EINVAL, "EINVAL");
    errno = 0;
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) == -1 && errno == EINVAL, "EINVAL");
}

static void (*const refused[])(void) = {
    by_prctl_without_the_right,           by_raw_prctl_without_the_right, by_seccomp_with_an_unknown_flag,
    for_threads_of_which_one_has_its_own, strictly_behind_a_filter,
};

static void with_a_listener(void) {
    static struct filter filter;
    begin_filter(&filter);
    ANSWER(&filter, SECCOMP_RET_KILL_PROCESS, SYS_madvise, SYS_openat);
    end_filter(&filter, SECCOMP_RET_ALLOW);
    allow_installing();
    grows();
    long answer = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter.program);
    EXPECT(answer > 0 || errno == EINVAL, "a descriptor");
    if (answer > 0)
        malloc_trim(0);
}

static void expect_end(pid_t child, const char *what, unsigned number) {
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "%s %u to end well, not with %x", what, number, status);
}

int main(void) {
    allow_few_and_all();
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
        pid_t child = fork();
        if (child == 0) {
            refused[i]();
            EXPECT(grows(), "memory after a refusal");
            _exit(0);
        }
        expect_end(child, "refusal", i);
    }
    pid_t child = fork();
    if (child == 0) {
        with_a_listener();
        _exit(0);
    }
    expect_end(child, "a filter with a listener,", 0);
    return 0;
}
