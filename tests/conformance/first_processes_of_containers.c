// The first process of a container has threads and makes, by clone, a child that is the first of a container as well: both
// have the number 1. The child's unshare is refused; it does not wait for a thread of its parent's.
// on: glibc preload locked hardened
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void *work(void *argument) {
    for (;;) {
        free(malloc(100000));
        usleep(1000);
    }
    return argument;
}

static int first_process(void) {
    EXPECT(getpid() == 1, "the number 1, not %d", getpid());
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
    usleep(50 * 1000);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, 0, 0, 0, 0);
    EXPECT(child >= 0, "a child");
    if (child == 0) {
        alarm(100);
        _exit(unshare(1) == -1 && errno == EINVAL ? 0 : 1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "the child to be refused, not status %x", status);
    return 0;
}

int main(void) {
    /* As root, or where users may have namespaces of their own; else there is nothing to see. */
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return 0;
    pid_t child = fork();
    EXPECT(child >= 0, "a child");
    if (child == 0)
        _exit(first_process());
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "the container to succeed, not status %x", status);
    return 0;
}
