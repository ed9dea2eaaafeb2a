// A program that lowers its own limit of address space can still start threads, map memory and start programs; if
// the limit ends the heap, malloc says so, and goes on when something was freed. Little is taken unasked.
// on: glibc preload locked hardened static
// flags: -pthread
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void *work(void *argument) {
    for (int i = 0; i < 1000; i++)
        free(malloc(i));
    return argument;
}

static size_t mapped(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;
    EXPECT(file != NULL && fscanf(file, "%zu", &pages) == 1, "the size of this process");
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

int main(void) {
    free(malloc(100));
    EXPECT(mapped() < 64 * MIB, "less than 64 MiB of addresses, not %zu MiB", mapped() / MIB);
    struct rlimit limit = {GIB, GIB};
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0, "a limit of 1 GiB");
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        EXPECT(pthread_create(&thread[i], NULL, work, NULL) == 0, "thread %d under the limit", i);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    void *map = mmap(NULL, 256 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(map != MAP_FAILED && munmap(map, 256 * MIB) == 0, "a mapping of 256 MiB");
    EXPECT(system("exit 3") >> 8 == 3, "a program to be started");
    static char *block[4096];
    int count = 0;
    errno = 0;
    while (count < 4096 && (block[count] = malloc(900000)) != NULL)
        block[count++][0] = 1;
    EXPECT(count > 400 && count < 4096 && errno == ENOMEM, "%d blocks of 900,000 bytes in 1 GiB, then ENOMEM", count);
    for (int i = 0; i < count; i++)
        free(block[i]);
    for (int i = 0; i < 300; i++)
        EXPECT((block[i] = malloc(900000)) != NULL, "block %d when all were freed", i);
    for (int i = 0; i < 300; i++)
        free(block[i]);
    return 0;
}
