// Fork handlers that were registered before the library's, as those of libraries that a program is linked with are,
// take a lock under which another thread allocates: fork goes on, whoever is in malloc.
// on: glibc preload locked hardened static
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

static void before(void) {
    pthread_mutex_lock(&own);
}

static void after(void) {
    pthread_mutex_unlock(&own);
}

static void early(int count, char **arguments, char **environment) {
    (void)count, (void)arguments, (void)environment;
    pthread_atfork(before, after, after);
}

/* Called before any library's constructor. */
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **, char **) = early;

static void *work(void *argument) {
    for (;;) {
        void *block[16];
        pthread_mutex_lock(&own);
        for (int i = 0; i < 16; i++)
            block[i] = malloc(300000 + (size_t)i * 4096);
        for (int i = 0; i < 16; i++)
            free(block[i]);
        pthread_mutex_unlock(&own);
    }
    return argument;
}

int main(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
    for (int i = 0; i < 200; i++) {
        alarm(100);
        pid_t child = fork();
        EXPECT(child >= 0, "fork %d", i);
        if (child == 0) {
            alarm(100);
            void *block = malloc(400000);
            EXPECT(block != NULL, "a block in the child");
            free(block);
            _exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "child %d to succeed, not status %x", i, status);
    }
    _exit(0);
}
