// A filter of system calls that holds before the program is started cannot be read, and ends the process for what is in
// none of systemd's lists of what services may ask, or only in those that units forbid (@resources, @debug): the library asks
// nothing of the kind, whatever it does.
// on: preload locked hardened registered
// flags: -pthread
#include "check.h"
#include "filter.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>

static void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void filter_and_start_again(char **words) {
    struct sched_param priority = {.sched_priority = 1};
    struct filter filter;
    begin_filter(&filter);
    ANSWER(&filter, SECCOMP_RET_KILL_PROCESS, SYS_mincore, SYS_sched_setscheduler, SYS_sched_setaffinity, SYS_sched_setparam,
           SYS_sched_setattr, SYS_setpriority, SYS_ioprio_set, SYS_mbind, SYS_set_mempolicy, SYS_migrate_pages, SYS_move_pages,
           SYS_pidfd_getfd, SYS_ptrace, SYS_process_vm_readv, SYS_process_madvise, SYS_perf_event_open, SYS_bpf, SYS_kcmp,
           SYS_userfaultfd, SYS_personality, SYS_mlock, SYS_mlockall, SYS_memfd_create);
    end_filter(&filter, SECCOMP_RET_ALLOW);
    /* Settings that a unit may have as well; refused to most users. */
    if (words[1] != NULL && strcmp(words[1], "real-time") == 0)
        sched_setscheduler(0, SCHED_FIFO, &priority);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter.program) == 0, "a filter");
    char *again[] = {words[0], "below", NULL};
    execv("/proc/self/exe", again);
    EXPECT(0, "the program again");
}

static void *work(void *nothing) {
    static __thread char *blocks[1000];
    for (int round = 0; round < 2; round++) {
        for (size_t number = 0; number < 1000; number++) {
            blocks[number] = malloc(1 + number * 7919 % 30000);
            EXPECT(blocks[number] != NULL, "memory");
            memset(blocks[number], 1, 1 + number * 7919 % 30000);
        }
        for (size_t bytes = 1000; bytes < 20 * MIB; bytes *= 3) {
            blocks[0] = realloc(blocks[0], bytes);
            EXPECT(blocks[0] != NULL, "memory");
            memset(blocks[0], 1, bytes);
        }
        for (size_t number = 0; number < 1000; number++)
            free(blocks[number]);
        nap(50);
    }
    return nothing;
}

static void *ours(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    EXPECT(found != NULL, "%s", name);
    return found;
}

static void threads_and_growth(void) {
    for (int generation = 0; generation < 1; generation++) {
        pthread_t threads[3];
        for (int number = 0; number < 3; number++)
            EXPECT(pthread_create(&threads[number], NULL, work, NULL) == 0, "a thread");
        for (int number = 0; number < 3; number++)
            pthread_join(threads[number], NULL);
    }
    /* A heap that grows and is full of what will become huge pages. */
    static char *blocks[1500];
    for (size_t number = 0; number < 1500; number++)
        memset(blocks[number] = malloc(60000), 1, 60000);
    nap(200);
    for (size_t number = 0; number < 1500; number++)
        free(blocks[number]);
    /* What is in memory of blocks used before has to be zeros again. */
    for (size_t bytes = 300 << 10; bytes < 16 << 20; bytes *= 3) {
        char *used = memset(malloc(bytes), 1, bytes);
        free(used);
        char *zeros = calloc(1, bytes);
        EXPECT(zeros && zeros[bytes / 2] == 0, "zeros");
        free(zeros);
    }
    nap(200);
}

static void below(void) {
    int (*set)(const char *, const char *) = ours("vcm_option_set");
    int (*start_profile)(size_t) = ours("vcm_profile_start");
    void (*stop_profile)(void) = ours("vcm_profile_stop");
    int (*write_profile)(const char *) = ours("vcm_profile_write");
    size_t (*statistics)(char *, size_t) = ours("vcm_stats_text");
    size_t (*release)(size_t) = ours("vcm_release");
    set("release_delay", "20ms");
    set("huge_pages", "on");
    EXPECT(start_profile(64 << 10) == 0, "a profile");
    threads_and_growth();
    write_profile("/dev/null");
    stop_profile();
    static char text[64 << 10];
    EXPECT(statistics(text, sizeof text) > 0, "statistics");
    set("memory_limit", "100M");
    threads_and_growth();
    release(0);
    set("janitor", "off");
    set("janitor", "on");
    pid_t child = fork();
    if (child == 0) {
        threads_and_growth();
        exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "a child that goes on, not status %x", status);
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "below") == 0) {
        below();
        return 0;
    }
    for (int real_time = 0; real_time < 2; real_time++) {
        pid_t child = fork();
        if (child == 0)
            filter_and_start_again((char *[]){words[0], real_time ? "real-time" : NULL, NULL});
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "no call that it ends for (real time: %d), not status %x", real_time,
               status);
    }
    return 0;
}
