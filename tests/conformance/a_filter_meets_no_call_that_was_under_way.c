// A filter that a program puts on all its threads ends none of them for a call of ours that was begun before: the thread that gives
// memory back is between its calls when the filter comes.
// on: preload locked hardened
#include "check.h"
#include "filter.h"
#include <pthread.h>
#include <sys/wait.h>

enum { CHILDREN = 240, AT_ONCE = 8 };

static void *work(void *nothing) {
    for (int i = 0; i < 2000; i++)
        free(memset(malloc(5000), 1, 5000));
    return nothing;
}

static void child(unsigned number) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        _exit(2);
    pthread_join(thread, NULL);
    static struct filter filter;
    begin_filter(&filter);
    ANSWER(&filter, SECCOMP_RET_ALLOW, SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_mmap, SYS_munmap, SYS_mprotect,
           SYS_mremap, SYS_madvise, SYS_brk, SYS_futex, SYS_getpid, SYS_clock_gettime, SYS_clock_nanosleep, SYS_gettid,
           SYS_nanosleep, SYS_rt_sigprocmask, SYS_rt_sigreturn);
    end_filter(&filter, SECCOMP_RET_KILL_PROCESS);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    usleep(5000 + number * 7919 % 20000);
    work(NULL);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter.program) != 0)
        _exit(0); /* a machine without filters */
    struct timespec time = {0, 20000000};
    nanosleep(&time, NULL);
    work(NULL);
    _exit(0);
}

int main(void) {
    int (*option_set)(const char *, const char *) = function("vcm_option_set");
    EXPECT(option_set("release_delay", "10ms") == 0, "the option");
    int ended = 0;
    for (unsigned number = 0; number < CHILDREN; number += AT_ONCE) {
        pid_t pid[AT_ONCE];
        for (unsigned i = 0; i < AT_ONCE; i++)
            if ((pid[i] = fork()) == 0)
                child(number + i);
        for (unsigned i = 0; i < AT_ONCE; i++) {
            int status = 0;
            EXPECT(waitpid(pid[i], &status, 0) == pid[i], "a child");
            ended += status != 0;
        }
    }
    EXPECT(ended == 0, "all children to end well, not %d of %d to be ended", ended, CHILDREN);
    return 0;
}
