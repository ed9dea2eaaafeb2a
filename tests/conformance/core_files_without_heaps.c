// With VCM_DUMP_HEAPS=off core files have the process's own blocks and none of heaps, whatever becomes of their memory; also in children.
// on: preload locked registered hardened static
// limit: 120
#include "check.h"
#include "heaps.h"
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, KEPT = 40, ROUNDS = 300 };

struct block {
    char *at;
    size_t bytes;
    bool is_heaps;
};

static vcm_heap heap;

/* Looks through the mappings, and says of each block what core files have of it. */
static void expect_in_core_files(const struct block *blocks, int count, const char *what) {
    static char line[4096];
    FILE *maps = fopen("/proc/self/smaps", "r");
    EXPECT(maps, "smaps");
    unsigned long start = 0, end = 0;
    size_t left_out[THREADS * KEPT] = {0};
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char field[64];
        if (sscanf(line, "%63s", field) == 1 && strchr(field, '-') && sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            start = from, end = to;
        } else if (!strncmp(line, "VmFlags:", 8) && strstr(line, " dd")) {
            for (int index = 0; index < count; index++) {
                unsigned long first = (unsigned long)blocks[index].at, last = first + blocks[index].bytes;
                first = first > start ? first : start, last = last < end ? last : end;
                left_out[index] += last > first ? last - first : 0;
            }
        }
    }
    fclose(maps);
    for (int index = 0; index < count; index++) {
        size_t wanted = blocks[index].is_heaps ? blocks[index].bytes : 0;
        EXPECT(left_out[index] == wanted, "%s: block of %zu bytes, of which %zu are left out and not %zu", what, blocks[index].bytes,
               left_out[index], wanted);
    }
}

static struct block allocate(unsigned random) {
    struct block made = {.bytes = 1 + random % 5 * (random >> 8) % (random % 7 ? 60000 : 3000000), .is_heaps = random % 3 != 0};
    made.at = made.is_heaps ? heaps.malloc(heap, made.bytes) : malloc(made.bytes);
    EXPECT(made.at, "a block");
    made.at[made.bytes - 1] = 1;
    return made;
}

static struct block kept[THREADS * KEPT];

static void *work(void *argument) {
    struct block *own = argument;
    unsigned random = (unsigned)(own - kept) + 1;
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1103515245 + 12345;
        struct block *place = &own[(random >> 16) % KEPT];
        if (place->at && round % 4 == 0) {
            place->bytes = place->bytes * 2 % 4000000 + 1;
            place->at = realloc(place->at, place->bytes);
            EXPECT(place->at, "a block that grows");
        } else {
            free(place->at);
            *place = allocate(random >> 4);
        }
    }
    for (int index = 0; index < KEPT; index++)
        if (!own[index].at)
            own[index] = allocate(random + index);
    return NULL;
}

static void in_child(void) {
    expect_in_core_files(kept, THREADS * KEPT, "in a child");
    work(kept + KEPT);
    expect_in_core_files(kept, THREADS * KEPT, "by a child");
    _exit(0);
}

int main(int argc, char **argv) {
    if (!getenv("VCM_DUMP_HEAPS")) {
        setenv("VCM_DUMP_HEAPS", "off", 1);
        execv("/proc/self/exe", argv);
        EXPECT(false, "to start again with %d arguments", argc);
    }
    find_heaps();
    for (int round = 0; round < 3; round++) {
        heap = heaps.new("left out", NULL);
        EXPECT(heap, "a heap");
        pthread_t thread[THREADS];
        for (int index = 0; index < THREADS; index++)
            EXPECT(!pthread_create(&thread[index], NULL, work, kept + index * KEPT), "a thread");
        for (int index = 0; index < THREADS; index++)
            pthread_join(thread[index], NULL);
        expect_in_core_files(kept, THREADS * KEPT, "of threads");
        pid_t child = fork();
        if (child == 0)
            in_child();
        int status = 1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "a child that ends well: %d", status);
        // In the last round its blocks become the process's own; before they go with it.
        int how = round == 2 ? VCM_HEAP_HAND_OVER : VCM_HEAP_FREE;
        EXPECT(heaps.destroy(heap, how) == 0, "its end");
        for (int index = 0; index < THREADS * KEPT; index++) {
            struct block *block = &kept[index];
            if (block->is_heaps && how == VCM_HEAP_FREE)
                *block = (struct block){0};
            block->is_heaps = false;
        }
        expect_in_core_files(kept, THREADS * KEPT, "after the end");
    }
    return 0;
}
