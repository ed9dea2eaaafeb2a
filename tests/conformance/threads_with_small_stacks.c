// Threads with stacks of 16 KiB, or the smallest that glibc allows, can allocate, resize and free every size: the slow
// paths need little stack.
// on: glibc preload locked hardened static
#include "check.h"
#include <pthread.h>

static void *work(void *argument) {
    unsigned random = (unsigned)(uintptr_t)argument;
    for (size_t bytes = 1; bytes < 4 * MIB; bytes = bytes * 3 / 2 + 1) {
        void *block = malloc(bytes + next_random(&random) % 100), *aligned = memalign(4096, bytes);
        EXPECT(block != NULL && aligned != NULL, "%zu bytes", bytes);
        block = realloc(block, bytes * 2);
        EXPECT(block != NULL, "%zu bytes", bytes * 2);
        free(aligned);
        free(block);
    }
    malloc_trim(0);
    mallinfo2();
    return NULL;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    /* The smallest that glibc allows on aarch64 are of 128 KiB. */
    EXPECT(pthread_attr_setstacksize(&attributes, 16 * KIB) == 0 ||
               pthread_attr_setstacksize(&attributes, 128 * KIB) == 0,
           "stacks of 16 KiB");
    for (uintptr_t round = 1; round <= 100; round++) {
        pthread_t thread[8];
        for (int i = 0; i < 8; i++)
            EXPECT(pthread_create(&thread[i], &attributes, work, (void *)(round * 8 + i)) == 0, "a thread");
        for (int i = 0; i < 8; i++)
            pthread_join(thread[i], NULL);
    }
    return 0;
}
