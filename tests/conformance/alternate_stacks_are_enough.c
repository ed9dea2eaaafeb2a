// A handler on an alternate stack of the smallest size allowed can allocate.
// on: glibc preload locked hardened static
#include "check.h"
#include <signal.h>

static volatile sig_atomic_t ran;

static void handler(int signal) {
    (void)signal;
    for (size_t bytes = 1; bytes < 2 * MIB; bytes *= 5) {
        void *block = malloc(bytes);
        if (block == NULL)
            _exit(9);
        free(block);
    }
    ran = 1;
}

int main(void) {
    long bytes = sysconf(_SC_SIGSTKSZ);
    stack_t stack = {.ss_sp = malloc(bytes), .ss_size = bytes};
    EXPECT(sigaltstack(&stack, NULL) == 0, "an alternate stack of %ld bytes", bytes);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    EXPECT(ran, "the handler to run");
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    free(stack.ss_sp);
    return 0;
}
