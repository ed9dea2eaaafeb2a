/* A fixed amount stays, threads allocate and free around it, and children come and go. The arguments: threads, MiB that stay. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each thread holds so many blocks of at most so many bytes. */
#define HELD 64
#define MOST 2048

static void *churn(void *number)
{
    uint64_t random = (uintptr_t)number * 2654435761u + 1;
    void *held[HELD] = {0};
    for (;;) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        void **place = &held[random >> 40 & (HELD - 1)];
        free(*place);
        *place = malloc(random >> 50 & (MOST - 1));
    }
    return NULL;
}

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 4;
    long kilobytes = (count > 2 ? atol(arguments[2]) : 16) * 1024;
    for (long at = 0; at < kilobytes; at++)
        memset(malloc(1024), 1, 1024);
    for (intptr_t at = 0; at < threads; at++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, churn, (void *)at))
            return 1;
    }
    if (write(1, "ready\n", 6) != 6)
        return 1;
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            free(malloc(100));
            _exit(0);
        }
        if (child > 0)
            waitpid(child, NULL, 0);
        usleep(2000);
    }
}
