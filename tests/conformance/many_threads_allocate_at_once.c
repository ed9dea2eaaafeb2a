// 64 threads with random sizes keep their blocks' contents, whoever runs where.
// on: glibc preload locked registered hardened static
#include "check.h"
#include <pthread.h>

enum { THREADS = 64, SLOTS = 128, STEPS = 20000 };

static void *work(void *argument) {
    unsigned random = (unsigned)(uintptr_t)argument * 2654435761u + 1;
    unsigned char *block[SLOTS] = {0};
    size_t bytes[SLOTS];
    unsigned seed[SLOTS];
    for (int step = 0; step < STEPS; step++) {
        int slot = next_random(&random) % SLOTS;
        if (block[slot] != NULL) {
            EXPECT(holds(block[slot], bytes[slot], seed[slot]),
                   "%zu bytes kept by their thread", bytes[slot]);
            free(block[slot]);
        }
        bytes[slot] = next_random(&random) % (step % 500 == 0 ? 400000 : 300);
        seed[slot] = random;
        block[slot] = step % 5 == 0 ? calloc(1, bytes[slot]) : malloc(bytes[slot]);
        EXPECT(block[slot] != NULL, "%zu bytes", bytes[slot]);
        EXPECT(step % 5 != 0 || is_zero(block[slot], bytes[slot]), "%zu cleared bytes", bytes[slot]);
        fill(block[slot], bytes[slot], seed[slot]);
    }
    for (int slot = 0; slot < SLOTS; slot++)
        free(block[slot]);
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&thread[i], NULL, work, (void *)(i + 1)) == 0, "thread %zu", i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
