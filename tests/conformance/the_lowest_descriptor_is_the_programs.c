// A thread that closes a descriptor and opens a file gets that number again, however often the library looks at limits.
// on: preload locked hardened
#include "janitor.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static atomic_int stop;

static void *work(void *argument) {
    unsigned random = 1;
    void *block[100] = {0};
    while (!atomic_load(&stop)) {
        int slot = (int)(next_random(&random) % 100);
        free(block[slot]);
        block[slot] = malloc(random % 300000 + 1);
        usleep(20);
    }
    return argument;
}

int main(void) {
    pthread_t thread;
    /* Limits are read at every second tick, of which there are four in this delay. */
    set_option("release_delay", "20ms");
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
    time_t end = time(NULL) + 3;
    while (time(NULL) <= end)
        for (int i = 0; i < 1000; i++) {
            close(0);
            int got = open("/dev/null", O_RDWR);
            EXPECT(got == 0, "the lowest descriptor, not %d", got);
        }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    return 0;
}
