// System call filters: a program that shuts itself in goes on, whatever its heap has to do afterwards.
#include "probe.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#define ERROR(number) (SECCOMP_RET_ERRNO | (number))
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* What the C library's own malloc may need, and what a thread needs to sleep and to end. */
static const int LEAST[] = {
    SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise,
    SYS_brk, SYS_futex, SYS_getpid, SYS_clock_gettime, SYS_clock_nanosleep, SYS_gettid, SYS_nanosleep,
    SYS_rt_sigprocmask, SYS_rt_sigreturn,
};

/* OpenSSH 9.2, sandbox-seccomp-filter.c: what its child before the login may do; what it may ask in vain. */
static const int OPENSSH[] = {
    SYS_brk, SYS_clock_gettime, SYS_clock_nanosleep, SYS_close, SYS_exit, SYS_exit_group, SYS_futex,
    SYS_geteuid, SYS_getpid, SYS_getpgid, SYS_getrandom, SYS_gettid, SYS_getuid, SYS_gettimeofday, SYS_madvise,
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_nanosleep, SYS_poll, SYS_ppoll, SYS_pselect6, SYS_read,
    SYS_select, SYS_rt_sigprocmask, SYS_shutdown, SYS_time, SYS_write, SYS_writev,
};
static const int OPENSSH_IN_VAIN[] = {
    SYS_lstat, SYS_fstat, SYS_open, SYS_openat, SYS_newfstatat, SYS_stat, SYS_shmget, SYS_shmat, SYS_shmdt,
};

struct Rule {
    const int *calls;
    size_t count;
    unsigned answer;
};

static void enter(const struct Rule *rules, size_t count, unsigned otherwise, unsigned flags) {
    struct sock_filter code[200] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short length = 1;
    for (size_t rule = 0; rule < count; rule++)
        for (size_t call = 0; call < rules[rule].count; call++) {
            unsigned number = rules[rule].calls[call];
            code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
            code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, rules[rule].answer);
        }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    struct sock_fprog program = {length, code};
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0)
        SKIP("this machine has no system call filters");
}

static void allow(const int *calls, size_t count, unsigned otherwise, unsigned flags) {
    enter(&(struct Rule){calls, count, SECCOMP_RET_ALLOW}, 1, otherwise, flags);
}

static void nap(int milliseconds) {
    struct timespec time = {0, milliseconds * 1000000L};
    nanosleep(&time, NULL);
}

/* Strict mode has read, write and exit. No allocator can be asked for memory that it does not hold, nor for a guarded
 * sample; blocks that were just freed it has. */
static void strict_mode(void) {
    int (*set)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "vcm_option_set");
    if (set != NULL)
        set("guarded_rate", "0");
    static void *block[50];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 100; i++) {
            free(block[i % 50]);
            block[i % 50] = i < 50 ? malloc(100) : NULL;
        }
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) == 0, "strict mode");
    for (int i = 0; i < 5000; i++) {
        free(block[i % 50]);
        block[i % 50] = malloc(100);
    }
    syscall(SYS_exit, 0);
}

static void strict_mode_is_survived(void) {
    work_and_free(1, 2000);
    int status = end_of(strict_mode);
    EXPECT(status == 0, "exit code 0, not status %x", status);
}

static void live_like_sshs_child(void) {
    enum { BLOCKS = 2000 };
    static void *block[BLOCKS];
    struct Rule rules[] = {{OPENSSH_IN_VAIN, COUNT(OPENSSH_IN_VAIN), ERROR(EACCES)},
                           {OPENSSH, COUNT(OPENSSH), SECCOMP_RET_ALLOW}};
    enter(rules, 2, SECCOMP_RET_KILL_PROCESS, 0);
    unsigned random = 1;
    for (int round = 0; round < 10; round++, nap(20))
        for (int k = 0; k < BLOCKS; k++) {
            unsigned i = next_random(&random) % BLOCKS;
            free(block[i]);
            block[i] = malloc(next_random(&random) % 20000);
        }
    grow();
}

static void openssh_filter_at_once(void) { EXPECT(end_of(live_like_sshs_child) == 0, "to end by itself"); }

static void openssh_filter_after_work(void) {
    warm();
    EXPECT(end_of(live_like_sshs_child) == 0, "to end by itself");
}

static void least_filter_then_growth(void) {
    free(malloc(100));
    allow(LEAST, COUNT(LEAST), SECCOMP_RET_KILL_PROCESS, 0);
    work_and_free(1, 2000);
    grow();
}

static void *shut_in(void *unused) {
    allow(LEAST, COUNT(LEAST), SECCOMP_RET_KILL_PROCESS, 0);
    work_and_free(1, 2000);
    nap(50);
    work_and_free(2, 2000);
    return unused;
}

static void filter_of_one_thread(void) {
    pthread_t thread, worker;
    warm();
    start_at_work(&worker, 1);
    // Its stack stays: glibc unmaps what it need not keep, by calls that are on the list.
    EXPECT(pthread_create(&thread, NULL, shut_in, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    stop_workers(&worker, 1);
    live();
}

static void filter_of_all_threads(void) {
    warm();
    allow(LEAST, COUNT(LEAST), SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
    nap(300);
    grow();
    nap(100);
}

static void filter_of_all_beside_threads(void) {
    pthread_t thread;
    start_at_work(&thread, 1);
    allow(LEAST, COUNT(LEAST), SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
    grow();
    nap(200);
    stop_workers(&thread, 1);
}

/* What kills a thread must not leave a lock with it: the next fork would wait for ever. */
static void filter_that_kills_threads_then_fork(void) {
    static const int MORE[] = {
        SYS_clone, SYS_clone3, SYS_wait4, SYS_set_robust_list, SYS_rseq, SYS_set_tid_address,
    };
    pthread_t worker;
    start_at_work(&worker, 1);
    struct Rule rules[] = {{LEAST, COUNT(LEAST), SECCOMP_RET_ALLOW}, {MORE, COUNT(MORE), SECCOMP_RET_ALLOW}};
    enter(rules, 2, SECCOMP_RET_KILL_THREAD, SECCOMP_FILTER_FLAG_TSYNC);
    nap(300);
    stop_workers(&worker, 1);
    nap(300);
    pid_t child = fork();
    if (child == 0) {
        grow();
        _exit(0);
    }
    expect_success(child, "a child of a shut in program");
}

static volatile sig_atomic_t trapped, trapped_call;

static void note_trapped(int unused, siginfo_t *info, void *context) {
    (void)unused, (void)context;
    trapped_call = info->si_syscall;
    trapped++;
}

static void a_trap_meets_only_the_programs_calls(void) {
    warm();
    struct sigaction action = {.sa_sigaction = note_trapped, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    allow(LEAST, COUNT(LEAST), SECCOMP_RET_TRAP, SECCOMP_FILTER_FLAG_TSYNC);
    grow();
    nap(300);
    work_and_free(1, 2000);
    EXPECT(trapped == 0, "no call to be trapped, but %d were, the last of number %d", (int)trapped, (int)trapped_call);
    syscall(SYS_getppid);
    EXPECT(trapped == 1, "the program's own call to be trapped");
}

static const int REFUSED[] = {
    SYS_openat, SYS_open, SYS_madvise, SYS_membarrier, SYS_mremap, SYS_munmap, SYS_mprotect, SYS_sysinfo,
    SYS_sched_getaffinity, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_prctl, SYS_getrandom, SYS_mincore,
    SYS_gettid,
};
static size_t refused;

static void live_refused(void) {
    struct Rule rule = {&REFUSED[refused], 1, ERROR(refused % 2 ? EPERM : ENOSYS)};
    enter(&rule, 1, SECCOMP_RET_ALLOW, 0);
    work_and_free(1, 1000);
    grow();
}

static void each_call_refused(void) {
    warm();
    for (refused = 0; refused < COUNT(REFUSED); refused++) {
        int status = end_of(live_refused);
        EXPECT(status == 0, "to live without call number %d, not status %x", REFUSED[refused], status);
    }
}

/* What systemd's @system-service leaves out: no service needs it. */
static void service_filter_and_exec(void) {
    static const int FORBIDDEN[] = {
        SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_ptrace, SYS_process_vm_readv,
        SYS_process_vm_writev, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_init_module, SYS_finit_module,
        SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_iopl, SYS_ioperm,
        SYS_settimeofday, SYS_clock_settime, SYS_syslog, SYS_open_by_handle_at, SYS_personality, SYS_setns,
        SYS_unshare, SYS_acct, SYS_quotactl, SYS_lookup_dcookie, SYS_vhangup, SYS_nfsservctl,
    };
    if (!is_again()) {
        enter(&(struct Rule){FORBIDDEN, COUNT(FORBIDDEN), SECCOMP_RET_KILL_PROCESS}, 1, SECCOMP_RET_ALLOW, 0);
        start_again("inside");
    }
    warm();
    live();
}

/* All that is not needed to start a program is refused, already while the library starts. */
static void narrow_filter_and_exec(void) {
    static const int START[] = {
        SYS_execve, SYS_openat, SYS_pread64, SYS_close, SYS_newfstatat, SYS_fstat, SYS_arch_prctl,
        SYS_set_tid_address, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_getrandom, SYS_access,
        SYS_readlink, SYS_writev, SYS_tgkill,
    };
    if (!is_again()) {
        struct Rule rules[] = {{LEAST, COUNT(LEAST), SECCOMP_RET_ALLOW}, {START, COUNT(START), SECCOMP_RET_ALLOW}};
        enter(rules, 2, ERROR(EPERM), 0);
        start_again("inside");
    }
    work_and_free(1, 2000);
    grow();
}

static const struct Case CASES[] = {
    CASE(strict_mode_is_survived),
    CASE(openssh_filter_at_once),
    CASE(openssh_filter_after_work),
    CASE(least_filter_then_growth),
    CASE(filter_of_one_thread),
    CASE(filter_of_all_threads),
    CASE(filter_of_all_beside_threads),
    CASE(filter_that_kills_threads_then_fork),
    CASE(a_trap_meets_only_the_programs_calls),
    CASE(each_call_refused),
    CASE(service_filter_and_exec),
    CASE(narrow_filter_and_exec),
};

int main(int argc, char **argv) { return RUN(CASES); }
