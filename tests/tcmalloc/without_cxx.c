// A C program without libstdc++ runs on the library.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *block) {
    free(block);
    return malloc(100);
}

int main(void) {
    pthread_t thread;
    void *block = malloc(100);
    if (pthread_create(&thread, 0, work, block) || pthread_join(thread, &block)) return 1;
    free(block);
    return 0;
}
