/* Makes the k-th of some system calls fail, for k = 1, 2, ... until a run makes fewer of them.
 *
 *   inject CALL ERROR once|on START MOST PROGRAM [ARGUMENT...]
 *
 *   CALL   mmap, munmap, mremap, madvise, mprotect, membarrier, futex, open, read
 *   ERROR  ENOMEM, EPERM, EINVAL, ENOSYS, EAGAIN
 *   once   only the k-th fails; on: the k-th and all that follow
 *   START  exec: calls count from the start of the program; main: from where it asks for process group 0x7eed
 *   MOST   the largest k
 *
 * A seccomp filter hands the chosen calls to this process, which traces the program and all its threads and children
 * (ptrace). Every run must exit with 0. Exempt are ends that are not the allocator's: the dynamic linker could not
 * load the program, or glibc's own check found that a futex answers strangely. Exits with 1 after printing each failure.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MARK = 0x7eed, SECONDS = 15 };

struct Name {
    const char *name;
    long value, other;
};

static const struct Name CALLS[] = {
    {"mmap", SYS_mmap, -1},         {"munmap", SYS_munmap, -1},         {"mremap", SYS_mremap, -1},
    {"madvise", SYS_madvise, -1},   {"mprotect", SYS_mprotect, -1},     {"membarrier", SYS_membarrier, -1},
    {"futex", SYS_futex, -1},       {"open", SYS_open, SYS_openat},     {"read", SYS_read, SYS_pread64},
};
static const struct Name ERRORS[] = {
    {"ENOMEM", ENOMEM, 0}, {"EPERM", EPERM, 0}, {"EINVAL", EINVAL, 0}, {"ENOSYS", ENOSYS, 0}, {"EAGAIN", EAGAIN, 0},
};

struct Plan {
    const struct Name *call, *error;
    int goes_on, from_main;
    long kth;
};

static const struct Name *find(const struct Name *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i].name, name) == 0)
            return &names[i];
    fprintf(stderr, "inject: '%s' is not known here; known are", name);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, " %s", names[i].name);
    fprintf(stderr, "\n");
    exit(2);
}

#define FIND(names, name) find(names, sizeof(names) / sizeof *(names), name)

static void hand_over(long call, long other) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)other, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(77);
}

static pid_t start(const struct Plan *plan, char **program, int words) {
    pid_t child = fork();
    if (child != 0)
        return child;
    setpgid(0, 0);
    dup2(words, 2);
    const char *library = getenv("INJECT_PRELOAD");
    if (library != NULL)
        setenv("LD_PRELOAD", library, 1);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    hand_over(plan->call->value, plan->call->other);
    execv(program[0], program);
    _exit(77);
}

static int timed_out;
static void on_alarm(int unused) { timed_out = 1 + 0 * unused; }

/* Decides about one call that the filter handed over. */
static void decide(const struct Plan *plan, pid_t thread, int *counting, long *count) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, NULL, &registers) != 0)
        return;
    if (registers.orig_rax == SYS_getpgid) {
        *counting |= registers.rdi == MARK;
        return;
    }
    // A wake-up that is lost is lost for ever, for everybody: only waiting is made to fail.
    long operation = registers.rsi & FUTEX_CMD_MASK;
    if (registers.orig_rax == SYS_futex && operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET)
        return;
    if (!*counting || (++*count != plan->kth && !(plan->goes_on && *count > plan->kth)))
        return;
    registers.orig_rax = -1;
    registers.rax = -plan->error->value;
    ptrace(PTRACE_SETREGS, thread, NULL, &registers);
}

/* Runs the program once; returns its wait status, or -1 after a hang. */
static int trace(const struct Plan *plan, pid_t child, long *count) {
    int counting = !plan->from_main, status, result = -1;
    waitpid(child, &status, 0);
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    ptrace(PTRACE_SETOPTIONS, child, NULL, options);
    ptrace(PTRACE_CONT, child, NULL, NULL);
    timed_out = 0;
    alarm(SECONDS);
    while (!timed_out) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) {
            if (errno == ECHILD)
                break;
            continue;
        }
        if (!WIFSTOPPED(status)) {
            if (thread == child)
                result = status;
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (event == PTRACE_EVENT_SECCOMP)
            decide(plan, thread, &counting, count);
        // A new thread stops once before it runs; other signals are the program's.
        int passed = event != 0 || signal == SIGSTOP || signal == SIGTRAP ? 0 : signal;
        ptrace(PTRACE_CONT, thread, NULL, passed);
    }
    alarm(0);
    if (timed_out) {
        kill(-child, SIGKILL);
        kill(child, SIGKILL);
        while (waitpid(-1, &status, __WALL) > 0 || errno == EINTR)
            ;
        return -1;
    }
    return result;
}

/* True for ends that no allocator can prevent. */
static int is_not_the_allocators(int status, const char *said) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return 1;
    return strstr(said, "The futex facility returned an unexpected error code") != NULL ||
           strstr(said, "error while loading shared libraries") != NULL ||
           strstr(said, "cannot allocate TLS data") != NULL;
}

/* Returns 0 if the run passed, and says in `more` whether the k-th call happened. */
static int run(const struct Plan *plan, char **program, int *more) {
    int words = memfd_create("words", 0);
    long count = 0;
    int status = trace(plan, start(plan, program, words), &count);
    char said[2000] = "";
    if (pread(words, said, sizeof said - 1, 0) < 0)
        said[0] = 0;
    close(words);
    *more = count >= plan->kth;
    // The very first mapping is the dynamic linker's own block, which it uses without a look.
    int linkers = !plan->from_main && plan->kth == 1 && plan->call->value == SYS_mmap;
    if (status == 0 || (status != -1 && (linkers || is_not_the_allocators(status, said)))) {
        *more |= linkers;
        return 0;
    }
    printf("%s %s %s, call %ld of %ld%s: ", plan->call->name, plan->error->name, plan->goes_on ? "on" : "once",
           plan->kth, count, plan->from_main ? " from main" : "");
    if (status == -1)
        printf("hang");
    else if (WIFSIGNALED(status))
        printf("signal %d", WTERMSIG(status));
    else
        printf("exit %d", WEXITSTATUS(status));
    printf(" in %s %s %s\n", program[0], program[1] ? program[1] : "", said);
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 7) {
        fprintf(stderr, "usage: inject CALL ERROR once|on exec|main MOST PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    struct Plan plan = {FIND(CALLS, argv[1]), FIND(ERRORS, argv[2]), strcmp(argv[3], "on") == 0,
                        strcmp(argv[4], "main") == 0, 1};
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    int failures = 0, more = 1;
    for (long most = atol(argv[5]); plan.kth <= most && more && failures < 5; plan.kth++)
        failures += run(&plan, argv + 6, &more);
    printf("%ld runs, %d failures\n", plan.kth - 1, failures);
    return failures != 0;
}
