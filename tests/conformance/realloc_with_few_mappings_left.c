// A long block keeps its contents when it grows, also where the process has nearly as many mappings as it may have, and
// where parts of the block are locked: each such part is a mapping, and the system may move some of them and then stop.
// on: glibc preload locked static
#include "check.h"
#include <sys/mman.h>
#include <sys/wait.h>

static int number_in(const char *path) {
    int number = 65530;
    FILE *file = fopen(path, "r");
    if (file != NULL && fscanf(file, "%d", &number) != 1)
        number = 65530;
    if (file != NULL)
        fclose(file);
    return number;
}

static int mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    int lines = 0;
    EXPECT(file != NULL, "the mappings");
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

enum { MOST = 300000 };
static char *many;
static int made;

/* Leaves the process so many mappings, or one more. */
static void leave(int spare, int limit) {
    const size_t page = sysconf(_SC_PAGESIZE);
    int missing = limit - spare - mappings();
    for (; missing >= 2 && mprotect(many + 2 * made * page, page, PROT_NONE) == 0; missing -= 2)
        made++;
    for (; missing < 0 && made > 0; missing += 2)
        mprotect(many + 2 * --made * page, page, PROT_READ);
}

static void grow(int spare, int locked_every, int limit) {
    size_t words = 20 * MIB / sizeof(size_t);
    size_t *block = malloc(words * sizeof *block);
    char *wall = malloc(MIB);
    EXPECT(block != NULL && wall != NULL, "20 MiB");
    for (size_t i = 0; i < words; i++)
        block[i] = i + 1;
    for (size_t mib = 1; locked_every != 0 && mib < 20; mib += locked_every)
        mlock((char *)block + mib * MIB, 4096);
    leave(spare, limit);
    for (int round = 0; round < 3; round++) {
        size_t *longer = realloc(block, 2 * words * sizeof *block);
        EXPECT(longer != NULL, "%zu MiB with %d mappings left", 2 * words * sizeof *block / MIB, spare);
        block = longer;
        EXPECT((wall = malloc(MIB)) != NULL, "1 MiB");
        wall[0] = 1;
        for (size_t i = 0; i < words; i++)
            EXPECT(block[i] == i + 1, "word %zu of %zu to stay, with %d mappings left", i, words, spare);
        for (size_t i = words; i < 2 * words; i++)
            block[i] = i + 1;
        words *= 2;
    }
}

int main(void) {
    int limit = number_in("/proc/sys/vm/max_map_count");
    if (limit >= MOST)
        return 0; /* that many take too long to make */
    size_t bytes = (size_t)MOST * sysconf(_SC_PAGESIZE);
    many = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(many != MAP_FAILED, "addresses for the mappings");
    leave(200, limit);
    static const int SPARE[] = {20, 16, 15, 12, 11, 8, 4};
    for (size_t i = 0; i < sizeof SPARE / sizeof *SPARE; i++) {
        pid_t child = fork();
        if (child == 0) {
            grow(SPARE[i], i % 2 ? 0 : 1, limit);
            _exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "contents with %d mappings left (status %x)",
               SPARE[i], status);
    }
    return 0;
}
