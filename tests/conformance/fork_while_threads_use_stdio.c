// fork does not deadlock against threads that open and close streams, which hold stdio's list lock and then allocate,
// nor against one that allocates all the time.
// on: glibc preload locked hardened static
// limit: 180
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { THREADS = 4, FORKS = 500 };
static atomic_int stop;

static void *work(void *argument) {
    while (!atomic_load(&stop)) {
        char *text = NULL;
        size_t length = 0;
        FILE *stream = open_memstream(&text, &length);
        FILE *null = fopen("/dev/null", "w");
        EXPECT(stream != NULL && null != NULL, "streams");
        for (int i = 0; i < 50; i++) {
            fprintf(stream, "%d\n", i);
            fprintf(null, "%d\n", i);
        }
        fflush(NULL);
        fclose(null);
        fclose(stream);
        free(text);
    }
    return argument;
}

static void *allocate(void *argument) {
    unsigned random = 1;
    void *block[64] = {0};
    while (!atomic_load(&stop)) {
        int slot = (int)(next_random(&random) % 64);
        free(block[slot]);
        block[slot] = malloc(random % 64 == 0 ? random % 500000 : random % 1000);
    }
    for (int slot = 0; slot < 64; slot++)
        free(block[slot]);
    return argument;
}

int main(void) {
    pthread_t thread[THREADS + 1];
    for (int i = 0; i <= THREADS; i++)
        EXPECT(pthread_create(&thread[i], NULL, i < THREADS ? work : allocate, NULL) == 0, "a thread");
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        EXPECT(child >= 0, "fork %d", i);
        if (child == 0) {
            alarm(100);
            FILE *null = fopen("/dev/null", "w");
            EXPECT(null != NULL, "a stream in the child");
            fprintf(null, "%d\n", i);
            fclose(null);
            free(malloc(100000));
            _exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child, "to wait for child %d", i);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0,
               "child %d to succeed, not status %x", i, status);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i <= THREADS; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
