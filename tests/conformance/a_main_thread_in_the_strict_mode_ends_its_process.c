// A main thread that has entered the strict mode of seccomp, and then ends in the only way that is left to it, ends the process.
// on: preload locked hardened
// flags: -pthread
#include "check.h"
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

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
    int status = -1;
    pid_t ended = 0;
    for (int i = 0; i < 1000 && ended == 0; i++) {
        ended = waitpid(child, &status, WNOHANG);
        usleep(10000);
    }
    if (ended == 0)
        kill(child, SIGKILL);
    EXPECT(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "an end with 7, not %x", status);
    return 0;
}
