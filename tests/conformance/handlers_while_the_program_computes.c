// A signal handler may allocate anything while the program is not inside the allocator.
// on: glibc preload locked hardened static
#include "check.h"
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t runs;

static void handler(int signal) {
    (void)signal;
    void *block = malloc((size_t)1 << (runs % 23));
    if (block == NULL)
        _exit(9);
    free(block);
    runs++;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    while (runs < 300)
        pause();
    return 0;
}
