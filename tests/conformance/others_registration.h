// A library that registers threads for restartable sequences, as far as ours meets it.
#ifndef OTHERS_REGISTRATION_H
#define OTHERS_REGISTRATION_H
#include "check.h"
#define CHECK(condition) EXPECT(condition, "it to hold")
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct others_area {
    uint32_t cpu_id_start;
    int32_t cpu_id;
    uint64_t sequence;
    uint32_t rest[4];
} __attribute__((aligned(32)));

static inline long others_register(struct others_area *area) {
    return syscall(SYS_rseq, area, sizeof *area, 0, 0x53053053);
}

static inline void *others_thread(void *allocates_first) {
    static _Thread_local struct others_area area = {.cpu_id = -1};
    void *blocks[100];
    for (int turn = 0; turn < 2; turn++) {
        if (turn == !allocates_first) {
            for (int i = 0; i < 100; i++) CHECK(blocks[i] = malloc(i * 30));
            for (int i = 0; i < 100; i++) free(blocks[i]);
        } else {
            CHECK(others_register(&area) == 0);
            CHECK(area.cpu_id >= 0);
        }
    }
    CHECK(area.sequence == 0);
    return NULL;
}

static inline int others_threads(void) {
    for (long i = 0; i < 20; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, others_thread, (void *)(i % 2)) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return 0;
}
#endif
