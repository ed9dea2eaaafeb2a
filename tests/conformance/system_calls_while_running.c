// Once loaded the library asks for memory, its fences, the clock and to wait; beside those it reads files. With
// `system_calls=few` it does not do that either. A filter that it cannot see ends the process for anything else.
// on: preload locked hardened static
// flags: -pthread
#include "check.h"
#include "filter.h"
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

extern int vcm_option_set(const char *name, const char *value) __attribute__((weak));

static void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static long by_instruction(long number, long first, long second, const void *third) {
#if defined(__x86_64__)
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return answer;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = first;
    register long x1 __asm__("x1") = second;
    register const void *x2 __asm__("x2") = third;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#endif
}

static volatile int filtered;

static void *work(void *nothing) {
    while (!filtered)
        nap(5);
    for (size_t round = 0; round < 6; round++) {
        static __thread char *blocks[3000];
        for (size_t number = 0; number < 3000; number++) {
            blocks[number] = malloc(1 + number * 7919 % 30000);
            EXPECT(blocks[number] != NULL, "memory");
            blocks[number][0] = 1;
        }
        for (size_t bytes = 1000; bytes < 40 * MIB; bytes *= 3) {
            blocks[0] = realloc(blocks[0], bytes);
            EXPECT(blocks[0] != NULL, "memory");
            memset(blocks[0], 1, bytes);
        }
        for (size_t number = 0; number < 3000; number++)
            free(blocks[number]);
        nap(300);
    }
    return nothing;
}

static void run(int few) {
    pthread_t threads[3];
    EXPECT(vcm_option_set != NULL && vcm_option_set("release_delay", "100ms") == 0, "the library's interface");
    if (few)
        EXPECT(vcm_option_set("system_calls", "few") == 0, "the option");
    for (int number = 0; number < 3; number++)
        EXPECT(pthread_create(&threads[number], NULL, work, NULL) == 0, "a thread");
    nap(100);
    struct filter filter;
    begin_filter(&filter);
    ANSWER(&filter, SECCOMP_RET_ALLOW, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_mremap, SYS_futex, SYS_membarrier,
           SYS_clock_gettime);
    /* The program's own. */
    ANSWER(&filter, SECCOMP_RET_ALLOW, SYS_clock_nanosleep, SYS_write, SYS_exit, SYS_exit_group, SYS_clone, SYS_wait4,
           SYS_set_robust_list, SYS_rseq);
#ifdef SYS_nanosleep
    ANSWER(&filter, SECCOMP_RET_ALLOW, SYS_nanosleep);
#endif
    /* Of a thread that ends, and of fork. */
    ANSWER(&filter, SECCOMP_RET_ALLOW, SYS_rt_sigprocmask, SYS_getpid, SYS_gettid);
    if (!few)
        ANSWER(&filter, SECCOMP_RET_ALLOW, SYS_openat, SYS_read, SYS_pread64, SYS_close, SYS_sched_getaffinity, SYS_mincore);
    end_filter(&filter, SECCOMP_RET_KILL_PROCESS);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    long installed = by_instruction(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter.program);
    EXPECT(installed == 0, "a filter, not %ld", installed);
    filtered = 1;
    for (int number = 0; number < 3; number++)
        pthread_join(threads[number], NULL);
    nap(500);
    pid_t child = fork();
    if (child == 0) {
        free(malloc(3 * MIB));
        _exit(0);
    }
    int status = 0;
    EXPECT(wait4(child, &status, 0, NULL) == child && status == 0, "a child that allocates");
}

int main(void) {
    for (int few = 0; few < 2; few++) {
        pid_t child = fork();
        if (child == 0) {
            run(few);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "no other call (few: %d), not status %x", few, status);
    }
    return 0;
}
