// A thread that was cancelled goes on through malloc and free, also where these read files for the first time, and
// ends where the program says.
// on: glibc preload locked hardened
#include "check.h"
#include <pthread.h>

static int got_through;

static void *work(void *argument) {
    enum { BLOCKS = 300 };
    void *block[BLOCKS];
    (void)argument;
    pthread_cancel(pthread_self());
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < BLOCKS; i++)
            block[i] = malloc(100000);
        for (int i = 0; i < BLOCKS; i++)
            free(block[i]);
        malloc_trim(0);
    }
    got_through = 1;
    pthread_testcancel();
    return NULL;
}

int main(void) {
    pthread_t thread;
    void *result = NULL;
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
    EXPECT(pthread_join(thread, &result) == 0, "its end");
    EXPECT(got_through, "the thread to get through malloc");
    EXPECT(result == PTHREAD_CANCELED, "it to be cancelled behind it");
    return 0;
}
