// Handlers that interrupt malloc and allocate, on any thread and on small stacks.
#include "case.h"
#include <setjmp.h>

static atomic_long handled, refused;

/* What a handler does: blocks of every path, checked. Null is an answer too: malloc was interrupted. */
static void allocate_in_handler(int unused) {
    (void)unused;
    int error = errno;
    static const size_t SIZES[] = {24, 700, 9000, 300000};
    unsigned char *block[4];
    for (int i = 0; i < 4; i++) {
        block[i] = malloc(SIZES[i]);
        if (block[i] == NULL)
            atomic_fetch_add(&refused, 1);
        else
            block[i][0] = block[i][SIZES[i] - 1] = 0x40 + i;
    }
    unsigned char *longer = block[0] == NULL ? NULL : realloc(block[0], 100);
    block[0] = longer == NULL ? block[0] : longer;
    for (int i = 0; i < 4; i++) {
        EXPECT(block[i] == NULL || block[i][0] == 0x40 + i, "a handler's block to keep its contents");
        free(block[i]);
    }
    atomic_fetch_add(&handled, 1);
    errno = error;
}

static void every_few_microseconds(int microseconds) {
    struct itimerval often = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &often, NULL);
}

static void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | flags};
    sigaction(signal, &action, NULL);
}

static void malloc_in_a_handler(void) {
    handle(SIGALRM, allocate_in_handler, 0);
    every_few_microseconds(100);
    double end = seconds() + number("ROBUSTNESS_SECONDS", 1);
    // On a busy machine a second may hold few: the runner's limit of time ends what never comes.
    while (seconds() < end || handled <= 100)
        work_and_free(1, 1000);
    every_few_microseconds(0);
    EXPECT(handled > 100, "handlers to run, not only %ld", (long)handled);
    EXPECT(refused < handled, "most blocks in handlers, not %ld refusals in %ld runs", (long)refused, (long)handled);
}

static void malloc_in_handlers_of_threads(void) {
    handle(SIGUSR1, allocate_in_handler, 0);
    pthread_t thread[4];
    start_workers(thread, 4);
    double end = seconds() + number("ROBUSTNESS_SECONDS", 1);
    for (unsigned i = 0; seconds() < end || handled <= 100; i++) {
        pthread_kill(thread[i % 4], SIGUSR1);
        if (i % 16 == 0)
            usleep(200);
    }
    stop_workers(thread, 4);
    EXPECT(handled > 100, "handlers to run, not only %ld", (long)handled);
}

static void allocate_in_nested_handler(int signal) {
    static volatile int depth;
    if (depth > 8)
        return;
    depth++;
    allocate_in_handler(signal);
    depth--;
}

static void malloc_in_nested_handlers(void) {
    handle(SIGALRM, allocate_in_nested_handler, SA_NODEFER);
    handle(SIGUSR1, allocate_in_nested_handler, SA_NODEFER);
    every_few_microseconds(300);
    double end = seconds() + number("ROBUSTNESS_SECONDS", 1);
    while (seconds() < end) {
        work_and_free(1, 50);
        raise(SIGUSR1);
    }
    every_few_microseconds(0);
}

/* A signal that arrives during fork is delivered before the handlers that follow a fork ran. */
static void malloc_in_a_handler_while_forking(void) {
    handle(SIGALRM, allocate_in_handler, 0);
    every_few_microseconds(500);
    double end = seconds() + number("ROBUSTNESS_SECONDS", 1);
    while (seconds() < end) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child > 0)
            expect_success(child, "a child of a process with a timer");
    }
    every_few_microseconds(0);
}

/* A fork holds every lock, so all of these threads wait inside slow paths when their handlers run. */
static void malloc_in_handlers_of_threads_that_wait_for_a_fork(void) {
    enum { THREADS = 48 };
    handle(SIGUSR1, allocate_in_handler, 0);
    pthread_t thread[THREADS];
    start_workers(thread, THREADS);
    double end = seconds() + 2 * number("ROBUSTNESS_SECONDS", 1);
    while (seconds() < end || handled <= 100) {
        for (int i = 0; i < THREADS; i++)
            pthread_kill(thread[i], SIGUSR1);
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child > 0)
            expect_success(child, "a child of a process whose threads have handlers");
    }
    stop_workers(thread, THREADS);
}

static void malloc_on_a_small_alternate_stack(void) {
    static char stack[16 * KIB];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    EXPECT(sigaltstack(&alternate, NULL) == 0, "an alternate stack");
    handle(SIGUSR1, allocate_in_handler, SA_ONSTACK);
    for (int i = 0; i < 1000; i++)
        raise(SIGUSR1);
}

static sigjmp_buf back;

static void allocate_and_leave(int signal) {
    allocate_in_handler(signal);
    siglongjmp(back, 1);
}

static void malloc_in_a_fault_handler(void) {
    handle(SIGSEGV, allocate_and_leave, 0);
    char *guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 1000; i++)
        if (sigsetjmp(back, 1) == 0) {
            void *block = malloc(100);
            free(block);
            *(volatile char *)guarded = 1;
        }
    EXPECT(handled == 1000, "every fault to be handled");
}

/* A thread is cancelled at a point that the C library offers while it holds blocks. */
static void *work_until_cancelled(void *unused) {
    (void)unused;
    for (unsigned i = 0;; i++) {
        work_and_free(i, 30);
        pthread_testcancel();
    }
    return NULL;
}

static void threads_are_cancelled(void) {
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, work_until_cancelled, NULL) == 0, "a thread");
        usleep(500);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    work_and_free(1, 1000);
}

static const struct Case CASES[] = {
    CASE(malloc_in_a_handler), CASE(malloc_in_handlers_of_threads), CASE(malloc_in_nested_handlers), CASE(malloc_in_a_handler_while_forking),
    CASE(malloc_in_handlers_of_threads_that_wait_for_a_fork),
    CASE(malloc_on_a_small_alternate_stack), CASE(malloc_in_a_fault_handler), CASE(threads_are_cancelled),
};

int main(int argc, char **argv) { return RUN(CASES); }
