// While a thread waits for its child of vfork another installs a filter for all: the thread does not register again for restartable
// sequences. Children of vfork that wait for locks do not ask for their parent's number either.
// on: glibc preload registered hardened
// flags: -pthread
#include "filter.h"
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

static struct filter filter;

static void install_for_all(int number) {
    begin_filter(&filter);
    answer(&filter, &number, 1, SECCOMP_RET_KILL_PROCESS);
    end_filter(&filter, SECCOMP_RET_ALLOW);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter.program) == 0, "a filter");
}

static void expect_end(pid_t child, const char *what) {
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "%s to end well, not with %x", what, status);
}

static int has_the_memory, may_end, is_done;

static void *lend(void *nothing) {
    free(malloc(10));
    pid_t child = vfork();
    if (child == 0) {
        __atomic_store_n(&has_the_memory, 1, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
            usleep(1000);
        _exit(0);
    }
    expect_end(child, "a child of vfork");
    free(malloc(10));
    return nothing;
}

static void filter_rseq_meanwhile(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, lend, NULL) == 0, "a thread");
    while (!__atomic_load_n(&has_the_memory, __ATOMIC_ACQUIRE))
        usleep(1000);
    install_for_all(SYS_rseq);
    __atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

static void *take_locks(void *nothing) {
    while (!__atomic_load_n(&is_done, __ATOMIC_RELAXED)) {
        void *block[16];
        for (int i = 0; i < 16; i++)
            block[i] = malloc(40000 + i * 30000);
        for (int i = 0; i < 16; i++)
            free(block[i]);
    }
    return nothing;
}

static void wait_for_locks_without_numbers(void) {
    enum { THREADS = 4, CHILDREN = 200 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(threads + i, NULL, take_locks, NULL) == 0, "a thread");
    usleep(10000);
    install_for_all(SYS_getppid);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = vfork();
        if (child == 0) {
            for (int j = 0; j < 300; j++)
                free(malloc(50000 + j * 1000));
            _exit(0);
        }
        expect_end(child, "a child that waits for locks");
    }
    __atomic_store_n(&is_done, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(void) {
    static void (*const works[])(void) = {filter_rseq_meanwhile, wait_for_locks_without_numbers};
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            works[i]();
            _exit(0);
        }
        expect_end(child, i ? "the process without getppid" : "the process without rseq");
    }
    return 0;
}
