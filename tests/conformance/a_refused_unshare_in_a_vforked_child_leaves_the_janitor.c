// A child of vfork is refused a namespace: the thread that gives memory back is its parent's, and stays.
// on: preload locked registered hardened
// flags: -pthread
#include "janitor.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

static void *wait_for_ever(void *argument) {
    for (;;)
        pause();
    return argument;
}

static int is_refused_unshare(int unused) {
    (void)unused;
    return unshare(CLONE_NEWNS | 1);
}

/* That of its own users it is in already. */
static int is_refused_setns(int users) {
    return setns(users, 0);
}

static void in_a_child(int (*call)(int), int argument) {
    int status;
    errno = 0;
    pid_t child = vfork();
    if (child == 0)
        _exit(call(argument) == 0 ? 255 : errno);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child, "a child");
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == EINVAL, "the call to be refused, not status %x", status);
}

int main(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0, "a thread");
    pid_t before = wait_for_janitor();
    EXPECT(before != 0, "a janitor");
    in_a_child(is_refused_unshare, 0);
    EXPECT(janitor() == before, "the janitor to stay after unshare");
    int users = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    EXPECT(users >= 0, "the namespace of users");
    in_a_child(is_refused_setns, users);
    EXPECT(janitor() == before, "the janitor to stay after setns");
    return 0;
}
