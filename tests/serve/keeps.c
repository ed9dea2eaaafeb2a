/* Allocates and frees without end, by one function, and keeps the last of its blocks. Says when it is ready. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCKS 128
static void *blocks[BLOCKS];

__attribute__((noinline)) void *keep_a_block(int at)
{
    free(blocks[at]);
    blocks[at] = malloc(300000);
    return blocks[at];
}

static void *work(void *unused)
{
    for (int at = 0;; at = (at + 1) % BLOCKS) {
        if (!keep_a_block(at))
            abort();
        if (at % 8 == 0)
            usleep(1000);
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) || puts("ready") < 0 || fflush(stdout))
        return 1;
    for (;;)
        pause();
}
