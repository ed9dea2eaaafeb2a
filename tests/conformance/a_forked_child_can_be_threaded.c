// A forked child starts threads of its own, which allocate; and so does its child, and the parent goes on.
// on: glibc preload locked hardened static
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

static void *work(void *argument) {
    for (int i = 0; i < 2000; i++) {
        void *block = malloc(1 + (i * 97) % 5000);
        EXPECT(block != NULL, "a block");
        memset(block, 1, 1 + (i * 97) % 5000);
        free(block);
    }
    return argument;
}

static void run_threads(void) {
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        EXPECT(pthread_create(&thread[i], NULL, work, NULL) == 0, "a thread");
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
}

static void descend(int generations) {
    unsigned char *inherited = malloc(3000);
    fill(inherited, 3000, generations);
    run_threads();
    if (generations > 0) {
        pid_t child = fork();
        EXPECT(child >= 0, "a fork");
        if (child == 0) {
            EXPECT(holds(inherited, 3000, generations), "the parent's block in the child");
            free(inherited);
            descend(generations - 1);
            exit(0);
        }
        run_threads();
        int status;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "generation %d to succeed", generations);
    }
    EXPECT(holds(inherited, 3000, generations), "the block untouched by the child");
    free(inherited);
}

int main(void) {
    descend(20);
    return 0;
}
