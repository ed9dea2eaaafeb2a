// A process that lets itself make few system calls goes on allocating, whatever its filter does with the others, and
// whichever way it was installed; its threads, the idle ones too, and a fork afterwards.
// glibc itself opens a file where a thread's heap shrinks.
// on: preload locked hardened
// flags: -pthread
#include "check.h"
#include "filter.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum way { BY_PRCTL, BY_SYSCALL, BY_PRCTL_AS_SYSCALL };

static void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void install(struct filter *filter, enum way way, unsigned flags) {
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    long outcome = way == BY_PRCTL     ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter->program)
                   : way == BY_SYSCALL ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter->program)
                                       : syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter->program, 0, 0);
    EXPECT(outcome == 0, "a filter");
}

/* As the child of OpenSSH has it that talks to strangers. */
static void as_sshd(enum way way, unsigned action) {
    struct filter filter;
    begin_filter(&filter);
    ANSWER(&filter, SECCOMP_RET_ERRNO | EACCES, SYS_openat, SYS_newfstatat, SYS_fstat);
    ANSWER(&filter, SECCOMP_RET_ALLOW, SYS_brk, SYS_clock_gettime, SYS_clock_nanosleep, SYS_close, SYS_exit, SYS_exit_group,
           SYS_futex, SYS_getpid, SYS_getrandom, SYS_gettid, SYS_madvise, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap,
           SYS_nanosleep, SYS_read, SYS_rt_sigprocmask, SYS_write, SYS_writev);
    end_filter(&filter, action);
    install(&filter, way, 0);
    static void *blocks[2000];
    for (unsigned round = 0, random = 1; round < 60; round++) {
        for (int number = 0; number < 2000; number++) {
            random = random * 1103515245 + 12345;
            void **place = &blocks[(random >> 8) % 2000];
            free(*place);
            size_t bytes = (random >> 12) % (number % 100 ? 20000 : 900000);
            *place = malloc(bytes);
            EXPECT(*place != NULL, "memory");
            memset(*place, 1, bytes);
        }
        nap(20);
    }
}

/* Lets a call pass whose argument at this place has this value. */
static void allow_with(struct filter *filter, int number, int place, unsigned value) {
    struct sock_filter *line = filter->lines + filter->program.len;
    line[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 4);
    line[1] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * place);
    line[2] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    line[3] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    line[4] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    filter->program.len += 5;
}

static void *allocate_and_free(void *unused) {
    static _Thread_local void *blocks[3000];
    for (unsigned round = 0, random = 1; round < 20; round++)
        for (int number = 0; number < 3000; number++) {
            random = random * 1103515245 + 12345;
            void **place = &blocks[(random >> 8) % 3000];
            free(*place);
            size_t bytes = (random >> 12) % (number % 100 ? 20000 : 900000);
            *place = malloc(bytes);
            EXPECT(*place != NULL, "%zu bytes in round %u", bytes, round);
            memset(*place, 1, bytes);
        }
    for (int number = 0; number < 3000; number++)
        free(blocks[number]);
    return unused;
}

/* As tor and Chromium have it: mapped is as every malloc maps, and what is mapped keeps its protection. `threads`: they
 * come after the filter, on CPUs of which the heap knows nothing yet. */
static void as_tor(unsigned action, int threads) {
    struct filter filter;
    begin_filter(&filter);
    allow_with(&filter, SYS_mmap, 3, 0x22);     /* MAP_PRIVATE | MAP_ANONYMOUS */
    allow_with(&filter, SYS_mmap, 3, 0x4022);   /* and MAP_NORESERVE */
    allow_with(&filter, SYS_mmap, 3, 0x20022);  /* a thread's stack */
    allow_with(&filter, SYS_mprotect, 2, 1);    /* to be read only */
    allow_with(&filter, SYS_madvise, 2, 4);     /* MADV_DONTNEED */
    ANSWER(&filter, SECCOMP_RET_ALLOW, SYS_brk, SYS_clock_gettime, SYS_clock_nanosleep, SYS_exit, SYS_exit_group, SYS_futex,
           SYS_getpid, SYS_gettid, SYS_getrandom, SYS_munmap, SYS_nanosleep, SYS_rt_sigprocmask, SYS_write, SYS_clone,
           SYS_clone3, SYS_set_robust_list, SYS_rseq, SYS_rt_sigaction, SYS_fstat, SYS_newfstatat, SYS_lseek);
    end_filter(&filter, action);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setguardsize(&small, 0);
    pthread_t running[16];
    install(&filter, BY_PRCTL, 0);
    for (int number = 0; number < threads; number++)
        EXPECT(pthread_create(&running[number], &small, allocate_and_free, NULL) == 0, "a thread");
    allocate_and_free(NULL);
    for (int number = 0; number < threads; number++)
        pthread_join(running[number], NULL);
}

/* A thread may ask for itself alone, and is ended by a signal that is blocked. The heap's own thread
 * comes with the program's first one. */
static void as_chromium(void) {
    struct filter filter;
    begin_filter(&filter);
    allow_with(&filter, SYS_sched_setscheduler, 0, 0);
    allow_with(&filter, SYS_sched_setaffinity, 0, 0);
    ANSWER(&filter, SECCOMP_RET_TRAP, SYS_sched_setscheduler, SYS_sched_setaffinity);
    end_filter(&filter, SECCOMP_RET_ALLOW);
    install(&filter, BY_PRCTL, 0);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, allocate_and_free, NULL) == 0, "a thread");
    pthread_join(thread, NULL);
}

static volatile int done;

static void *work(void *blocks_of_caller) {
    void **blocks = blocks_of_caller;
    for (unsigned random = 1; !done; nap(20))
        for (int number = 0; number < 5000; number++) {
            random = random * 1103515245 + 12345;
            int at = (random >> 8) % 5000;
            free(blocks[at]);
            blocks[at] = malloc((random >> 12) % 20000);
        }
    return NULL;
}

/* A filter for all threads, the heap's own among them, which it would end without a word: with its locks. */
static void for_all_threads(unsigned action) {
    static void *blocks[5000];
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, blocks) == 0, "a thread");
    nap(300);
    struct filter filter;
    begin_filter(&filter);
    ANSWER(&filter, SECCOMP_RET_ALLOW, SYS_brk, SYS_clock_gettime, SYS_clock_nanosleep, SYS_exit, SYS_exit_group, SYS_futex,
           SYS_getpid, SYS_gettid, SYS_madvise, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_nanosleep,
           SYS_rt_sigprocmask, SYS_write, SYS_clone, SYS_set_robust_list, SYS_rseq, SYS_wait4);
    end_filter(&filter, action);
    install(&filter, BY_SYSCALL, SECCOMP_FILTER_FLAG_TSYNC);
    nap(1500);
    done = 1;
    pthread_join(thread, NULL);
    nap(1200);
    for (int number = 0; number < 5000; number++)
        free(blocks[number]);
    pid_t child = fork();
    if (child == 0) {
        free(malloc(100000));
        _exit(0);
    }
    int status = 0;
    EXPECT(wait4(child, &status, 0, NULL) == child && status == 0, "a child that allocates");
}

/* What a failed attempt leaves: programs ask so what the kernel can do. */
static void in_vain(void) {
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT, "no filter at null");
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 8) == -1, "none there");
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == -1 && errno == EINVAL, "no strict mode, as libseccomp asks");
    free(memset(malloc(100 << 20), 1, 100 << 20));
    struct sock_fprog nowhere = {5, (void *)4096};
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &nowhere) == -1, "none there either");
    EXPECT(syscall(SYS_seccomp, 99, 0, NULL) == -1 && errno == EINVAL, "EINVAL");
    errno = 33;
    EXPECT(prctl(PR_GET_SECCOMP) == 0 && errno == 33, "no filter");
    EXPECT(syscall(SYS_gettid) == getpid() && syscall(SYS_mmap, NULL, 4096, 0, 0x22, -1, 0L) != -1, "six arguments");
}

/* Only what is free already can be had, and null is no end. */
static void strictly(void) {
    void *block = malloc(1000);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    free(block);
    block = malloc(1000);
    if (block != NULL)
        memset(block, 1, 1000);
    free(block);
    syscall(SYS_exit, 0);
}

static void expect_end(const char *what, pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s to end as it should, not by %x", what, status);
}

#define IN_A_CHILD(call)                 \
    do {                                 \
        pid_t child_ = fork();           \
        if (child_ == 0) {               \
            call;                        \
            _exit(0);                    \
        }                                \
        expect_end(#call, child_);       \
    } while (0)

int main(void) {
    in_vain();
    IN_A_CHILD(as_sshd(BY_PRCTL, SECCOMP_RET_KILL_PROCESS));
    IN_A_CHILD(as_sshd(BY_PRCTL_AS_SYSCALL, SECCOMP_RET_TRAP));
    IN_A_CHILD(as_sshd(BY_SYSCALL, SECCOMP_RET_ERRNO | EPERM));
    IN_A_CHILD(as_tor(SECCOMP_RET_KILL_PROCESS, 0));
    IN_A_CHILD(as_tor(SECCOMP_RET_ERRNO | EPERM, 8));
    IN_A_CHILD(as_chromium());
    IN_A_CHILD(for_all_threads(SECCOMP_RET_KILL_PROCESS));
    IN_A_CHILD(for_all_threads(SECCOMP_RET_KILL_THREAD));
    IN_A_CHILD(strictly());
    return 0;
}
