// A signal handler forks wherever it interrupts malloc and free, and the child goes on there: no block is in two hands.
// on: preload locked registered hardened static
// limit: 60
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { FORKS = 150, IN_HANDLER = 40, IN_ALL = 400 };

static volatile sig_atomic_t is_child, forks;
static void *blocks[2 * IN_ALL];
static int count;

static void fork_here(int signal) {
    (void)signal;
    if (is_child || forks >= FORKS)
        return;
    forks++;
    pid_t child = fork();
    if (child == 0) {
        is_child = 1;
        for (int number = 0; number < IN_HANDLER; number++)
            blocks[count++] = malloc(64);
        return;
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0)
        _exit(7);
}

static int by_address(const void *one, const void *other) {
    uintptr_t first = *(const uintptr_t *)one, second = *(const uintptr_t *)other;
    return first < second ? -1 : first > second;
}

static void expect_all_different(void) {
    while (count < IN_ALL)
        blocks[count++] = malloc(64);
    qsort(blocks, count, sizeof *blocks, by_address);
    for (int number = 1; number < count; number++)
        if (blocks[number] == NULL || blocks[number] == blocks[number - 1])
            _exit(9);
    _exit(0);
}

int main(void) {
    struct sigaction action = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0, "a handler");
    struct itimerval often = {{0, 1500}, {0, 1500}};
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0, "a timer");
    while (!is_child && forks < FORKS) {
        void *block = malloc(64);
        if (is_child)
            blocks[count++] = block;
        else
            free(block);
    }
    if (is_child)
        expect_all_different();
    return 0;
}
