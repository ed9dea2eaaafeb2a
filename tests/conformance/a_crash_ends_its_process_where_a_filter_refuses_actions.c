// Under a filter of system calls that refuses sigaction, by an error or with the end of the process, a fault and a SIGSEGV that is sent end the
// process by SIGSEGV, and a handler that is to run once runs once.
// on: glibc preload locked hardened
#include "filter.h"
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static struct filter filter;

static void install(unsigned action) {
    begin_filter(&filter);
    ANSWER(&filter, action, SYS_rt_sigaction, SYS_rt_tgsigqueueinfo);
    end_filter(&filter, SECCOMP_RET_ALLOW);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter.program) == 0, "a filter");
}

static int runs;

static void handle(int number) {
    (void)number;
    if (++runs > 1)
        _exit(2);
}

static void handle_once(int flags) {
    struct sigaction once = {.sa_handler = handle, .sa_flags = SA_RESETHAND | flags};
    EXPECT(sigaction(SIGSEGV, &once, NULL) == 0, "an action");
}

static void read_nothing(void) {
    *(volatile char *)NULL;
}

static void raise_it(void) {
    raise(SIGSEGV);
}

static void raise_it_twice(void) {
    raise(SIGSEGV);
    raise(SIGSEGV);
}

static const struct {
    void (*end)(void);
    int once, flags;
} cases[] = {
    {read_nothing, 0, 0},         {raise_it, 0, 0},         {read_nothing, 1, 0},
    {read_nothing, 1, SA_NODEFER}, {raise_it_twice, 1, 0}, {raise_it_twice, 1, SA_NODEFER},
};

int main(void) {
    const unsigned actions[] = {SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_KILL_PROCESS};
    free(malloc(10));
    for (unsigned i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            if (cases[i / 2].once)
                handle_once(cases[i / 2].flags);
            install(actions[i % 2]);
            cases[i / 2].end();
            _exit(3);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
               "case %u to end by SIGSEGV, not with %x", i, status);
    }
    return 0;
}
