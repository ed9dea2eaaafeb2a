// 20,000 short threads, each allocating, leave no memory behind.
// on: glibc preload locked registered hardened static
// limit: 180
#include "check.h"
#include <pthread.h>

static size_t resident(void) {
    unsigned long total = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file != NULL && fscanf(file, "%lu %lu", &total, &pages) == 2, "/proc/self/statm to be readable");
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void *work(void *argument) {
    void *block[50];
    for (int i = 0; i < 50; i++) {
        block[i] = malloc(20 + i * i);
        memset(block[i], 1, 20);
    }
    for (int i = 0; i < 49; i++)
        free(block[i]);
    (void)argument;
    return block[49];
}

static void run_threads(int count) {
    for (int i = 0; i < count; i += 4) {
        pthread_t thread[4];
        for (int j = 0; j < 4; j++)
            EXPECT(pthread_create(&thread[j], NULL, work, NULL) == 0, "a thread");
        for (int j = 0; j < 4; j++) {
            void *block;
            pthread_join(thread[j], &block);
            free(block);
        }
    }
}

static size_t in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

int main(void) {
    run_threads(5000);
    size_t before = in_use();
    run_threads(15000);
    EXPECT(in_use() < before + 256 * KIB, "as much in use after as before: %zu, not %zu", before, in_use());
    /* What caches may keep; 64 KB were in use at any moment. */
    EXPECT(resident() < 24 * MIB, "less than 24 MiB resident, not %zu", resident());
    return 0;
}
