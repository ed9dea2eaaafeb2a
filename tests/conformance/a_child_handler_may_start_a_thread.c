// A handler of fork that was registered before the library's starts a thread in the child, which allocates while the
// handlers after it still have to run, and beside the child's first thread.
// on: glibc preload locked hardened static
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

static pthread_t worker;
static int has_worker;

static void *work(void *argument) {
    for (size_t i = 0; i < 300; i++) {
        unsigned char *small = malloc(5000 + i * 300), *large = malloc(300000);
        EXPECT(small != NULL && large != NULL, "blocks in the child's worker");
        fill(small, 5000 + i * 300, 1);
        EXPECT(holds(small, 5000 + i * 300, 1), "the block to be the worker's alone");
        free(small);
        free(large);
    }
    return argument;
}

static void in_child(void) {
    has_worker = pthread_create(&worker, NULL, work, NULL) == 0;
    /* Long enough for the worker to be in malloc when the handlers go on. */
    usleep(5000);
}

static void early(int count, char **arguments, char **environment) {
    (void)count, (void)arguments, (void)environment;
    pthread_atfork(NULL, NULL, in_child);
}

__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **, char **) = early;

int main(void) {
    for (int i = 0; i < 20; i++) {
        free(malloc(100000));
        pid_t child = fork();
        EXPECT(child >= 0, "fork %d", i);
        if (child == 0) {
            alarm(100);
            work(NULL);
            EXPECT(has_worker && pthread_join(worker, NULL) == 0, "the handler's thread");
            exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "child %d to succeed, not status %x", i, status);
    }
    return 0;
}
