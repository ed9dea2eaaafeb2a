// The main thread leaves by pthread_exit, and the janitor with it. A child that another thread forks is a process with a main
// thread of its own: when it makes threads it gets a janitor.
// on: preload locked hardened
#include "janitor.h"
#include <pthread.h>
#include <sys/wait.h>

static pthread_t main_thread;

static void *wait_forever(void *argument) {
    pause();
    return argument;
}

static void *work(void *argument) {
    pthread_join(main_thread, NULL);
    pid_t child = fork();
    EXPECT(child >= 0, "a fork");
    if (child == 0) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, wait_forever, NULL) == 0, "a thread");
        EXPECT(wait_for_janitor() != 0, "a janitor in the child");
        _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "the child to succeed, not status %x", status);
    EXPECT(janitor() == 0, "no janitor in the process that its main thread has left");
    exit(0);
    return argument;
}

int main(void) {
    pthread_t thread;
    main_thread = pthread_self();
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
    pthread_exit(NULL);
}
