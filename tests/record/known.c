/* Known events: 1,000 times malloc, realloc, free; threads that come and go; by the second argument a child of fork, which must
   not be recorded ("away": it goes on after its parent), exec of itself, or a wait for SIGUSR1 and further events. Ends with 7. */
#include "worker.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words) {
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, 0);
    if (count > 2 && !strcmp(words[2], "exec"))
        return execl("/proc/self/exe", words[0], words[1], (char *)0);
    for (int i = 0; i < 1000; i++)
        free(realloc(malloc(777), 7770));
    if (count > 2 && !strcmp(words[2], "away")) {
        pid_t child = fork();
        if (child) {
            char text[16];
            _exit(write(1, text, snprintf(text, sizeof text, "%d\n", child)) < 0);
        }
        close(0), close(1), close(2), setsid(), sleep(60);
        return 0;
    }
    if (count > 2 && !strcmp(words[2], "fork") && fork() == 0) {
        for (int i = 0; i < 5000; i++)
            free(malloc(999));
        _exit(0);
    }
    for (int i = 0; i < atoi(words[1]); i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, work, 0) || pthread_join(thread, 0))
            return 1;
    }
    while (wait(0) > 0)
        ;
    if (count > 2 && !strcmp(words[2], "wait")) {
        if (write(1, "ready\n", 6) != 6)
            return 1;
        int signal;
        sigwait(&usr1, &signal);
        for (int i = 0; i < 50; i++)
            free(malloc(50000));
    }
    return 7;
}
