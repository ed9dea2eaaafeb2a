// The blocks that each function of a program has taken and still holds, by the program's own count. `tell` says it: a
// line for each function and size, with the bytes asked for, the blocks taken and the blocks held. With WAITS in the
// environment the program then lives until its input ends, else it ends at once.
#pragma once

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SITE __attribute__((noinline)) static
#define MOST_LINES 1024

static struct {
    const char *function;
    size_t bytes;
    long taken, held;
} lines[MOST_LINES];
static int line_count;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static inline void count(const char *function, size_t bytes, long taken, long held) {
    pthread_mutex_lock(&counting);
    int at = 0;
    while (at < line_count && (lines[at].bytes != bytes || strcmp(lines[at].function, function) != 0))
        at++;
    if (at == line_count) {
        if (line_count == MOST_LINES)
            abort();
        lines[line_count].function = function;
        lines[line_count++].bytes = bytes;
    }
    lines[at].taken += taken;
    lines[at].held += held;
    pthread_mutex_unlock(&counting);
}

// So many blocks were taken by this function, and given back by anybody.
static inline void took(const char *function, size_t bytes, long blocks) { count(function, bytes, blocks, blocks); }
static inline void gave(const char *function, size_t bytes, long blocks) { count(function, bytes, 0, -blocks); }

static inline void use(void *block) {
    if (block == NULL)
        abort();
    asm volatile("" ::"r"(block) : "memory");
}

// Blocks that are to be freed later, linked through their first word.
static inline void *pushed(void *list, void *block) {
    use(block);
    *(void **)block = list;
    return block;
}

static inline void free_all(void *list) {
    while (list != NULL) {
        void *next = *(void **)list;
        free(list);
        list = next;
    }
}

static inline unsigned next_random(unsigned *state) { return (*state = *state * 1664525 + 1013904223) >> 8; }

static inline int tell(void) {
    for (int at = 0; at < line_count; at++)
        printf("%s %zu %ld %ld\n", lines[at].function, lines[at].bytes, lines[at].taken, lines[at].held);
    puts("told");
    fflush(stdout);
    char byte;
    while (getenv("WAITS") != NULL && read(0, &byte, 1) > 0) {
    }
    return 0;
}
