/* Whether the kernel aborts restartable sequences. The main thread counts within one, again and again, while another
 * wants its CPU, a timer's signal comes, and a child moves it from CPU to CPU. Prints how many were aborted of each five, and
 * the statistics of malloc, which name the front; ends with 0 if all were, with 1 if none was, else with 2. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/rseq.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMES 5

static volatile int is_over;

/* True where it began again at the way out for aborted ones. */
static int is_aborted(unsigned long rounds) {
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    int aborted = 0;
#if defined(__aarch64__)
    __asm__ volatile(".pushsection .data.rel.ro, \"aw\"\n"
                     ".balign 32\n"
                     "1: .long 0, 0\n"
                     ".quad 2f, 3f - 2f, 4f\n"
                     ".popsection\n"
                     "adrp x9, 1b\n"
                     "add x9, x9, :lo12:1b\n"
                     "str x9, [%[announced]]\n"
                     "2: subs %[rounds], %[rounds], #1\n"
                     "b.ne 2b\n"
                     "3: b 5f\n"
                     ".inst 0xd428bc00\n"
                     "4: mov %w[aborted], #1\n"
                     "5:\n"
                     : [aborted] "+r"(aborted), [rounds] "+r"(rounds)
                     : [announced] "r"(&area->rseq_cs)
                     : "x9", "memory", "cc");
#elif defined(__x86_64__)
    __asm__ volatile(".pushsection .data.rel.ro, \"aw\"\n"
                     ".balign 32\n"
                     "1: .long 0, 0\n"
                     ".quad 2f, 3f - 2f, 4f\n"
                     ".popsection\n"
                     "leaq 1b(%%rip), %%rax\n"
                     "movq %%rax, (%[announced])\n"
                     "2: decq %[rounds]\n"
                     "jnz 2b\n"
                     "3: jmp 5f\n"
                     ".long 0x53053053\n"
                     "4: movl $1, %[aborted]\n"
                     "5:\n"
                     : [aborted] "+r"(aborted), [rounds] "+r"(rounds)
                     : [announced] "r"(&area->rseq_cs)
                     : "rax", "memory", "cc");
#endif
    return aborted;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *want_the_cpu(void *unused) {
    while (!is_over) {
    }
    return unused;
}

static void nothing(int number) {
    (void)number;
}

static void stay_on(pid_t thread, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(thread, sizeof set, &set);
}

static int count(unsigned long rounds) {
    int aborted = 0;
    for (int i = 0; i < TIMES; i++) {
        aborted += is_aborted(rounds);
    }
    return aborted;
}

int main(void) {
    if (__rseq_size == 0) {
        puts("aborts: nobody has registered this thread");
        return 77;
    }
    unsigned long rounds = 1000000;
    double took = 1;
    for (int whole = 0; whole < 10;) {
        double before = now();
        if (!is_aborted(rounds)) {
            took = now() - before < took ? now() - before : took;
            whole++;
        }
    }
    rounds = (unsigned long)((double)rounds * 0.2 / took);

    pthread_t other;
    stay_on(0, 0);
    if (pthread_create(&other, NULL, want_the_cpu, NULL) != 0) {
        return 3;
    }
    int preempted = count(rounds);
    is_over = 1;
    pthread_join(other, NULL);

    struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, nothing);
    setitimer(ITIMER_REAL, &often, NULL);
    int signalled = count(rounds);
    setitimer(ITIMER_REAL, &never, NULL);

    pid_t self = getpid(), mover = fork();
    if (mover == 0) {
        for (int turn = 0; getppid() == self; turn++) {
            stay_on(self, turn % (int)sysconf(_SC_NPROCESSORS_ONLN));
            usleep(10000);
        }
        _exit(0);
    }
    int moved = count(rounds);
    kill(mover, SIGKILL);
    waitpid(mover, NULL, 0);
    printf("aborts: of %d each, %d preempted, %d at a signal, %d moved\n", TIMES, preempted, signalled, moved);
    malloc_stats();
    int all = preempted + signalled + moved;
    return all == 3 * TIMES ? 0 : all == 0 ? 1 : 2;
}
