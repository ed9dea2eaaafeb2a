// Destructors of thread-specific data, run while a thread ends, may allocate and free.
// on: glibc preload locked registered hardened static
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

static pthread_key_t key[4];
static atomic_int destroyed;

static void destroy(void *value) {
    EXPECT(holds(value, 100, 1), "the value kept until its destructor runs");
    free(value);
    for (int i = 0; i < 100; i++) {
        void *block = malloc(50 + i * 30);
        EXPECT(block != NULL, "a block in a destructor");
        free(block);
    }
    /* A new value in a destructor asks for another round of destructors. */
    if (atomic_fetch_add(&destroyed, 1) % 2 == 0) {
        void *next = malloc(100);
        fill(next, 100, 1);
        pthread_setspecific(key[3], next);
    }
}

static void *work(void *argument) {
    for (int i = 0; i < 4; i++) {
        void *value = malloc(100);
        fill(value, 100, 1);
        pthread_setspecific(key[i], value);
    }
    return argument;
}

int main(void) {
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_key_create(&key[i], destroy) == 0, "a key");
    for (int round = 0; round < 200; round++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
        pthread_join(thread, NULL);
    }
    EXPECT(destroyed >= 800, "every destructor to run");
    return 0;
}
