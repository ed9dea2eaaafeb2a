/* The end of a child that may hang. */
#ifndef END_H
#define END_H

#include "check.h"
#include <signal.h>
#include <sys/wait.h>

/* The status of a child that ends by itself in time; else ends it, and gives -1. */
__attribute__((unused)) static int status_within(pid_t child, int seconds) {
    int status = -1;
    for (int tries = 0; tries < seconds * 100; tries++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        usleep(10 * 1000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

#endif
