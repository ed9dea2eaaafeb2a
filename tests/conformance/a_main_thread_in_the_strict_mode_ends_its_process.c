// A main thread that has entered the strict mode of seccomp, and then ends in the only way that is left to it, ends the process.
// on: preload locked hardened
// flags: -pthread
#include "end.h"
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void *do_nothing(void *nothing) {
    return nothing;
}

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, do_nothing, NULL) == 0, "a thread");
        pthread_join(thread, NULL);
        EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "the strict mode");
        syscall(SYS_exit, 7);
    }
    int status = status_within(child, 10);
    EXPECT(status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 7, "an end with 7, not %x", status);
    return 0;
}
