// Signals: handlers are the program's alone, SIGSEGV's too, and a signal of the process never meets a thread of ours.
#include "probe.h"
#include <setjmp.h>

static void handler(int unused) { (void)unused; }

/* Each way to set a handler: it says that there was none, and the next that it is ours. */
static void read_back_by_sigaction(void) {
    struct sigaction before, now, set = {.sa_handler = handler};
    EXPECT(sigaction(SIGSEGV, &set, &before) == 0 && before.sa_handler == SIG_DFL, "no handler before");
    EXPECT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == handler, "the program's handler");
}

#define READ_BACK_BY(function)                                                                  \
    static void read_back_by_##function(void) {                                                 \
        struct sigaction now;                                                                   \
        EXPECT(function(SIGSEGV, handler) == SIG_DFL, "no handler before");                     \
        EXPECT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == handler, "the handler"); \
        EXPECT(signal(SIGSEGV, SIG_DFL) == handler, "the program's handler");                   \
        EXPECT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL, "no handler");  \
    }

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
READ_BACK_BY(signal)
READ_BACK_BY(sigset)
READ_BACK_BY(sysv_signal)
READ_BACK_BY(ssignal)

static void sigaction_reads_back(void) { warm(), in_child(read_back_by_sigaction); }
static void signal_reads_back(void) { warm(), in_child(read_back_by_signal); }
static void sigset_reads_back(void) { warm(), in_child(read_back_by_sigset); }
static void sysv_signal_reads_back(void) { warm(), in_child(read_back_by_sysv_signal); }
static void ssignal_reads_back(void) { warm(), in_child(read_back_by_ssignal); }

static void a_child_of_underscore_fork_has_no_handler(void) {
    warm();
    pid_t child = _Fork();
    if (child == 0)
        read_back_by_sigaction(), _exit(0);
    expect_success(child, "a child that asks for its handlers");
}

static void no_alternate_stack_is_set(void) {
    warm();
    stack_t now;
    EXPECT(sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE), "no alternate stack");
}

static volatile char *no_access;
static sigjmp_buf back;
static volatile sig_atomic_t faults;
static siginfo_t seen;
static char *stack_of_handler;

static void leap(int unused, siginfo_t *info, void *context) {
    (void)unused, (void)context;
    char local;
    stack_of_handler = &local;
    seen = *info;
    faults++;
    free(malloc(1000));
    siglongjmp(back, 1);
}

static void fault(int flags) {
    struct sigaction action = {.sa_sigaction = leap, .sa_flags = SA_SIGINFO | flags};
    if (no_access == NULL)
        no_access = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(sigaction(SIGSEGV, &action, NULL) == 0, "a handler");
    if (sigsetjmp(back, 1) == 0)
        no_access[100] = 1;
}

static void a_fault_tells_its_place(void) {
    warm();
    for (int i = 1; i <= 100; i++) {
        fault(0);
        EXPECT(faults == i && seen.si_addr == no_access + 100 && seen.si_code == SEGV_ACCERR, "fault %d with its place", i);
        work_and_free(i, 10);
    }
}

static void a_fault_on_an_alternate_stack(void) {
    static char stack[64 * 1024];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    warm();
    EXPECT(sigaltstack(&alternate, NULL) == 0, "an alternate stack");
    fault(SA_ONSTACK);
    EXPECT(stack_of_handler >= stack && stack_of_handler < stack + sizeof stack, "the handler on its own stack");
    fault(0);
    EXPECT(stack_of_handler < stack || stack_of_handler >= stack + sizeof stack, "the handler on the program's stack");
}

static void fault_twice_with_one_handler(void) {
    struct sigaction now;
    fault(SA_RESETHAND);
    EXPECT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL, "no handler after the first fault");
    EXPECT(faults == 1, "one fault");
    no_access[0] = 1;
}

static void fault_without_handler(void) { *(volatile char *)8 = 1; }
static void send_to_itself(void) { kill(getpid(), SIGSEGV), usleep(500000); }

static void fault_while_it_is_blocked(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    signal(SIGSEGV, handler);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fault_without_handler();
}

static void expect_killed(void (*run)(void), const char *what) {
    int status = end_of(run);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "%s to end by SIGSEGV, not status %x", what, status);
}

static void faults_kill_where_they_should(void) {
    warm();
    prctl(PR_SET_DUMPABLE, 0);
    expect_killed(fault_without_handler, "a fault without a handler");
    expect_killed(send_to_itself, "SIGSEGV by kill");
    expect_killed(fault_twice_with_one_handler, "the second fault of SA_RESETHAND");
    expect_killed(fault_while_it_is_blocked, "a fault while SIGSEGV is blocked");
}

static void ignored_signals_stay_so_through_exec(void) {
    if (!is_again()) {
        warm();
        signal(SIGSEGV, SIG_IGN);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGUSR1, handler);
        start_again("with");
    }
    warm();
    struct sigaction now;
    EXPECT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_IGN, "SIGSEGV to be ignored");
    EXPECT(sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_IGN, "SIGPIPE to be ignored");
    EXPECT(sigaction(SIGUSR1, NULL, &now) == 0 && now.sa_handler == SIG_DFL, "no handler after exec");
    kill(getpid(), SIGSEGV); // ignored
    live();
}

static void *expect_usr2_blocked(void *unused) {
    sigset_t now;
    EXPECT(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0, "the mask");
    for (int number = 1; number < 32; number++)
        EXPECT(sigismember(&now, number) == (number == SIGUSR2), "signal %d as whoever started the thread had it", number);
    return unused;
}

static void masks_are_inherited(void) {
    if (is_again()) {
        expect_usr2_blocked(NULL);
        return;
    }
    sigset_t set;
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    EXPECT(pthread_sigmask(SIG_SETMASK, &set, NULL) == 0, "a mask");
    warm();
    expect_usr2_blocked(NULL);
    EXPECT(pthread_create(&thread, NULL, expect_usr2_blocked, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    pid_t child = fork();
    if (child == 0)
        expect_usr2_blocked(NULL), _exit(0);
    expect_success(child, "a child with its mask");
    start_again("with");
}

static volatile sig_atomic_t handled, handled_by;

static void note_thread(int unused) {
    (void)unused;
    handled_by = gettid();
    handled++;
}

static void a_signal_of_the_process_waits_for_the_program(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    warm();
    tasks_after_a_while(1);
    signal(SIGUSR1, note_thread);
    for (int i = 1; i <= 20; i++) {
        sigprocmask(SIG_BLOCK, &set, NULL);
        kill(getpid(), SIGUSR1);
        usleep(2000);
        EXPECT(handled == i - 1, "the signal to wait while the program's only thread blocks it");
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        EXPECT(handled == i && handled_by == gettid(), "the handler in the program's thread");
    }
}

static void allocate(int unused) {
    (void)unused;
    void *small = malloc(100 + handled % 3000), *large = malloc(300000 + handled % 7 * 1000);
    free(small);
    free(large);
    handled++;
}

/* glibc allows no malloc in handlers that interrupt malloc; so the program only computes, beside threads that allocate. */
static void a_storm_of_handlers_that_allocate(void) {
    pthread_t thread;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    start_workers(&thread, 1);
    signal(SIGALRM, allocate);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (double end = seconds() + 0.3; seconds() < end || handled < 100;)
        ;
    setitimer(ITIMER_REAL, &never, NULL);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    stop_workers(&thread, 1);
    work_and_free(1, 2000);
}

static const struct Case CASES[] = {
    CASE(sigaction_reads_back),
    CASE(signal_reads_back),
    CASE(sigset_reads_back),
    CASE(sysv_signal_reads_back),
    CASE(ssignal_reads_back),
    CASE(a_child_of_underscore_fork_has_no_handler),
    CASE(no_alternate_stack_is_set),
    CASE(a_fault_tells_its_place),
    CASE(a_fault_on_an_alternate_stack),
    CASE(faults_kill_where_they_should),
    CASE(ignored_signals_stay_so_through_exec),
    CASE(masks_are_inherited),
    CASE(a_signal_of_the_process_waits_for_the_program),
    CASE(a_storm_of_handlers_that_allocate),
};

int main(int argc, char **argv) { return RUN(CASES); }
