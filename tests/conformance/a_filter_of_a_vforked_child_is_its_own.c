// A child of vfork installs a filter of system calls before it starts a program: the child itself goes on allocating, and its
// parent is bound by nothing, neither in another thread meanwhile nor afterwards.
// on: preload locked registered hardened
// flags: -pthread
#include "filter.h"
#include "growth.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>

static atomic_int is_filtered, has_grown;

static void *grow_beside_the_child(void *nothing) {
    while (!atomic_load(&is_filtered))
        usleep(1000);
    atomic_store(&has_grown, grows() ? 1 : -1);
    return nothing;
}

static void in_child(struct filter *filter) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter->program) != 0)
        _exit(2);
    /* One more, when the child may not ask any more whose memory it has. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter->program) != 0)
        _exit(3);
    for (int i = 0; i < 100; i++) {
        void *block = malloc(i % 10 == 0 ? 20 * MIB : 5000);
        if (block != NULL)
            memset(block, 1, 5000);
        free(block);
    }
    malloc_trim(0);
    atomic_store(&is_filtered, 1);
    while (!atomic_load(&has_grown))
        sched_yield();
    _exit(0);
}

static void with_filter(struct filter *filter) {
    int status;
    pthread_t thread;
    atomic_store(&is_filtered, 0);
    atomic_store(&has_grown, 0);
    EXPECT(pthread_create(&thread, NULL, grow_beside_the_child, NULL) == 0, "a thread");
    pid_t child = vfork();
    if (child == 0)
        in_child(filter);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child to end well, not with %x", status);
    pthread_join(thread, NULL);
    EXPECT(atomic_load(&has_grown) == 1, "memory for another thread meanwhile");
    EXPECT(grows(), "memory for the parent afterwards");
    expect_memory_back();
}

int main(void) {
    static struct filter without_madvise, without_mmap, without_numbers;
    int (*option_set)(const char *, const char *) = function("vcm_option_set");
    EXPECT(option_set("release_delay", "100ms") == 0, "the option");
    begin_filter(&without_madvise);
    ANSWER(&without_madvise, SECCOMP_RET_KILL_PROCESS, SYS_madvise);
    end_filter(&without_madvise, SECCOMP_RET_ALLOW);
    begin_filter(&without_mmap);
    ANSWER(&without_mmap, SECCOMP_RET_KILL_PROCESS, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_rt_sigaction);
    end_filter(&without_mmap, SECCOMP_RET_ALLOW);
    begin_filter(&without_numbers);
    ANSWER(&without_numbers, SECCOMP_RET_KILL_PROCESS, SYS_getpid, SYS_gettid, SYS_mmap, SYS_madvise);
    end_filter(&without_numbers, SECCOMP_RET_ALLOW);
    with_filter(&without_madvise);
    with_filter(&without_mmap);
    with_filter(&without_numbers);
    return 0;
}
