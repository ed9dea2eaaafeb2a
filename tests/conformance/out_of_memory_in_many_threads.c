// Many threads running out at once all get null and ENOMEM, and all work again after the frees.
// on: glibc preload locked hardened static
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>

enum { THREADS = 16, SLOTS = 20000 };

static void *work(void *argument) {
    unsigned random = (unsigned)(uintptr_t)argument;
    static __thread void *block[SLOTS]; /* not from the heap that runs out */
    int refusals = 0;
    for (int step = 0; step < 200000 && refusals < 2000; step++) {
        int slot = next_random(&random) % SLOTS;
        free(block[slot]);
        size_t bytes = random % 50 == 0 ? random % 200000 : 1 + random % 9000;
        errno = 0;
        block[slot] = malloc(bytes);
        if (block[slot] == NULL) {
            EXPECT(errno == ENOMEM, "ENOMEM");
            refusals++;
        } else {
            memset(block[slot], 1, bytes);
        }
    }
    for (int slot = 0; slot < SLOTS; slot++)
        free(block[slot]);
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 2) {
        struct rlimit limit = {600 * MIB, 600 * MIB};
        EXPECT(setrlimit(RLIMIT_AS, &limit) == 0, "a limit of 600 MiB");
        char *again[] = {arguments[0], "inside", NULL};
        execv("/proc/self/exe", again);
        EXPECT(0, "to start again under the limit");
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 * KIB);
    for (int round = 0; round < 2; round++) {
        pthread_t thread[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            /* The first ones may have left no memory for the stack of another. */
            if (pthread_create(&thread[i], &attributes, work, (void *)(i + 1)) != 0)
                thread[i] = 0;
        for (int i = 0; i < THREADS; i++)
            if (thread[i] != 0)
                pthread_join(thread[i], NULL);
    }
    malloc_trim(0);
    for (size_t bytes = 1; bytes <= 1 * MIB; bytes *= 2) {
        void *after = malloc(bytes);
        EXPECT(after != NULL, "%zu bytes after everything was freed", bytes);
        free(after);
    }
    return 0;
}
