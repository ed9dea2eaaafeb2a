// Misuse of one guarded block: `crimes CRIME at-end|at-start`. Prints the block and where the code of each step is, then
// does it. Prints "survived" where nothing stopped it. Runs with VCM_SAMPLE_INTERVAL=1 and no limit on the rate.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

static const size_t PAGE = 4096;

extern "C" {
__attribute__((noinline, used)) char *allocate_here(size_t size) {
    char *block = (char *)malloc(size);
    asm volatile("" ::"r"(block) : "memory");
    return block;
}
__attribute__((noinline, used)) void free_here(char *block) {
    free(block);
    asm volatile("" ::: "memory");
}
__attribute__((noinline, used)) void write_here(volatile char *at) {
    *at = 1;
    asm volatile("" ::: "memory");
}
__attribute__((noinline, used)) void read_here(volatile char *at) {
    (void)*at;
    asm volatile("" ::: "memory");
}
}

static char *block_at(const char *place, size_t size) {
    for (int tries = 0; tries < 64; tries++) {
        char *block = allocate_here(size);
        size_t offset = (uintptr_t)block % PAGE;
        if (strcmp(place, "at-start") == 0 ? offset == 0 : offset + size == PAGE)
            return block;
    }
    fprintf(stderr, "no guarded block %s\n", place);
    exit(3);
}

int main(int count, char **arguments) {
    const char *crime = count > 2 ? arguments[1] : "";
    // A multiple of the alignment, so that a block at the end touches its guard.
    const size_t size = 96;
    char *block = block_at(count > 2 ? arguments[2] : "at-end", size);
    memset(block, 7, size);
    printf("%p %p %p %p %p\n", block, (void *)allocate_here, (void *)free_here, (void *)write_here, (void *)read_here);
    fflush(stdout);
    long distance = count > 3 ? atol(arguments[3]) : 0;
    if (strcmp(crime, "overflow") == 0) {
        write_here(block + size + distance - 1);
        free_here(block);
    } else if (strcmp(crime, "overread") == 0) {
        read_here(block + size + distance - 1);
    } else if (strcmp(crime, "underflow") == 0) {
        write_here(block - distance);
        free_here(block);
    } else if (strcmp(crime, "write-after-free") == 0) {
        free_here(block);
        write_here(block + distance);
    } else if (strcmp(crime, "read-after-free") == 0) {
        std::thread(free_here, block).join();
        read_here(block + distance);
    } else if (strcmp(crime, "double-free") == 0) {
        free_here(block);
        free_here(block);
    } else if (strcmp(crime, "interior-free") == 0) {
        free_here(block + distance);
    } else if (strcmp(crime, "realloc-freed") == 0) {
        free_here(block);
        block = (char *)realloc(block, 10 * size);
    } else if (strcmp(crime, "sized-delete") == 0) {
        ::operator delete(block, size + distance);
    } else if (strcmp(crime, "none") == 0) {
        free_here(block);
    }
    printf("survived\n");
}
