/* What the programs of the misuse suite share: how a crime is announced, and how its damage is found.
 *
 * A program commits the crime its argument names and prints lines for the runner on standard output:
 *   committed               the wrong call returned: whoever stops the program now does so later
 *   outcome WORD DETAIL     what the crime led to, see `outcome` below
 */
#ifndef DAMAGE_H
#define DAMAGE_H

#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

static const size_t KIB = 1024, MIB = 1024 * KIB;

/* Where no allocation may ever lie: attackers point here. */
alignas(4096) static unsigned char target[64 * 1024];

static inline void committed() {
    if (write(1, "committed\n", 10) != 10)
        _exit(3);
}

/* harmless: nothing happened. stale: freed contents could be read. neighbour: contents of other blocks changed.
 * not-zero: calloc gave a block with contents. overlap: two live blocks share memory. foreign: memory that was
 * never the heap's was handed out. chosen: malloc returned an address that the writer chose. */
__attribute__((format(printf, 2, 3), noreturn)) static void outcome(const char *word, const char *format, ...) {
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dprintf(1, "outcome %s %s\n", word, text);
    _exit(0);
}

/* Memory that does not come from the heap that is being hurt. */
template <typename T> static T *outside(size_t count) {
    void *memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(3);
    return static_cast<T *>(memory);
}

struct Region {
    const void *start;
    size_t bytes;
    bool has(const void *block) const { return (uintptr_t)block - (uintptr_t)start < bytes; }
};

/* Allocates `count` blocks and says if one lies where none may, or two share memory. */
static inline void look_for_overlap(size_t bytes, size_t count, Region forbidden, const char *word) {
    uintptr_t *block = outside<uintptr_t>(count);
    for (size_t i = 0; i < count; i++) {
        block[i] = (uintptr_t)malloc(bytes);
        if (forbidden.has((void *)block[i]))
            outcome(word, "allocation %zu", i + 1);
    }
    std::sort(block, block + count);
    for (size_t i = 1; i < count; i++)
        if (block[i - 1] != 0 && block[i] - block[i - 1] < bytes)
            outcome("overlap", "two blocks of %zu bytes are %zu apart", bytes, (size_t)(block[i] - block[i - 1]));
    for (size_t i = 0; i < count; i++)
        free((void *)block[i]);
}

/* Ordinary work of a program: each block says who owns it, at both ends. */
static inline void go_on_working() {
    static const size_t SLOTS = 512;
    struct Slot {
        uintptr_t *block;
        size_t words;
    } *slot = outside<Slot>(SLOTS);
    uint32_t random = 12345;
    for (int step = 0; step < 40000; step++) {
        random ^= random << 13, random ^= random >> 17, random ^= random << 5;
        Slot &one = slot[random % SLOTS];
        uintptr_t owner = (uintptr_t)&one;
        if (one.block != nullptr) {
            if (one.block[0] != owner || one.block[one.words - 1] != owner)
                outcome("overlap", "a block of %zu bytes lost its contents", one.words * sizeof(uintptr_t));
            free(one.block);
        }
        one.words = 2 + (random >> 9) % (random % 64 == 0 ? 20000 : 200);
        one.block = (uintptr_t *)malloc(one.words * sizeof(uintptr_t));
        if (one.block != nullptr)
            one.block[0] = one.block[one.words - 1] = owner;
    }
}

struct Crime {
    const char *name;
    void (*commit)();
};

template <size_t COUNT> static int commit(const Crime (&crimes)[COUNT], int count, char **arguments) {
    for (const Crime &crime : crimes)
        if (count > 1 && strcmp(crime.name, arguments[1]) == 0) {
            crime.commit();
            outcome("harmless", "nothing was seen");
        }
    dprintf(2, "give one crime:\n");
    for (const Crime &crime : crimes)
        dprintf(2, "  %s\n", crime.name);
    return 2;
}

#endif
