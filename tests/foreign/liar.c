/* A process on vcmalloc that lies in its window: what it says of its statistics is changed at random (docs/reference/window.md).
 * liar SEED HOW [COUNT]: 0 the description, 1 places, 2 classes, 3 constants, 4 the text of its version; so many processes. Says "ready". */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

static uint32_t state;
void *kept[2000];

static uint32_t next(void) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state;
}

static uint64_t wild(void) {
    switch (next() % 8) {
    case 0: return 0;
    case 1: return UINT64_MAX;
    case 2: return 1ull << next() % 64;
    case 3: return next() % 64;
    case 4: return (uint64_t)next() << 32 | next();
    case 5: return (uint64_t)(uintptr_t)&state;
    case 6: return INT64_MAX;
    default: return UINT32_MAX;
    }
}

static void open_up(uint8_t *at, size_t bytes) {
    uintptr_t begin = (uintptr_t)at & ~4095ul;
    mprotect((void *)begin, ((uintptr_t)at + bytes - begin + 4095) & ~4095ul, PROT_READ | PROT_WRITE);
}

static uint32_t word(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

static uint8_t *address(const uint8_t *at) {
    uint8_t *value;
    memcpy(&value, at, 8);
    return value;
}

static void lie(uint8_t *window, int how) {
    uint8_t *places = address(window + 32), *classes = address(window + 40);
    uint32_t bytes = word(window + 12), place_bytes = word(window + 48), place_count = word(window + 52);
    uint32_t class_bytes = word(window + 56), class_count = word(window + 60);
    uint64_t value;
    open_up(window, bytes);
    open_up(places, (size_t)place_bytes * place_count);
    open_up(classes, (size_t)class_bytes * class_count);
    if (how == 0) {
        value = wild();
        memcpy(window + 16 + next() % 6 * 8, &value, 8);
    }
    for (int i = 0; how == 1 && i < 4; i++) {
        uint8_t *place = places + (size_t)place_bytes * (next() % place_count);
        value = wild();
        memcpy(place + 40 + next() % 6 * 4, &value, 4);
    }
    for (int i = 0; how == 2 && i < 3; i++) {
        value = wild();
        memcpy(classes + (size_t)class_bytes * (next() % class_count) + next() % (class_bytes / 4) * 4, &value, 4);
    }
    for (int i = 0, n = 0; how == 3 && i < 4000 && n < 3; i++) {
        uint8_t *place = places + (size_t)place_bytes * (next() % place_count);
        if (word(place + 40) == 0) {
            value = wild();
            memcpy(place + 48, &value, 8);
            n++;
        }
    }
    if (how == 4)
        memcpy(window + 64, "\033]0;x\007\033[2J\n<script>\"\\\xe2\x80\xae", 24);
}

int main(int count, char **words) {
    int seed = atoi(words[1]), how = atoi(words[2]), many = count > 3 ? atoi(words[3]) : 1;
    uint8_t **window = dlsym(RTLD_DEFAULT, "vcm_window");
    if (!window)
        return puts("no window"), 2;
    for (int i = 1; i < many; i++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            seed += i, how = (how + i) % 5;
            break;
        }
    }
    state = (uint32_t)seed * 2654435761u + 1;
    for (int i = 0; i < 2000; i++)
        kept[i] = malloc(next() % 5000);
    prctl(PR_SET_NAME, "\033[31mX\n}\"\\");
    lie(*window, how);
    if (getppid() != 0 && write(1, "ready\n", 6) != 6)
        return 1;
    for (;;)
        pause();
}
