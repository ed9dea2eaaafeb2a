// If the C library registers no thread for restartable sequences, each thread that allocates is registered, keeps the
// contents of its blocks, and may end in any way: joined, detached, allocating in the destructors of its values. So is
// the one thread of a forked child.
// on: registered
#include "check.h"
#define CHECK(condition) EXPECT(condition, "it to hold")
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_key_t key;
static atomic_int ended;

// By an instruction of its own: a program that asks libc's syscall gets the thread.
static void check_registered(void) {
    static _Thread_local struct { int words[8]; } area __attribute__((aligned(32)));
#if defined(__x86_64__)
    long answer = SYS_rseq;
    register long signature __asm__("r10") = 0x53053053;
    __asm__ volatile("syscall" : "+a"(answer) : "D"(&area), "S"(32L), "d"(0L), "r"(signature) : "rcx", "r11", "memory");
#else
    register long number __asm__("x8") = SYS_rseq;
    register long answer __asm__("x0") = (long)&area;
    register long bytes __asm__("x1") = 32, flags __asm__("x2") = 0, signature __asm__("x3") = 0xd428bc00;
    __asm__ volatile("svc #0" : "+r"(answer) : "r"(number), "r"(bytes), "r"(flags), "r"(signature) : "memory");
#endif
    CHECK(answer == -EINVAL);
}

static void at_end(void *value) {
    free(value);
    for (int i = 0; i < 50; i++) free(malloc(40 + i * 16));
    atomic_fetch_add(&ended, 1);
}

static void *work(void *argument) {
    int number = (int)(long)argument;
    unsigned char *blocks[40];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) {
            CHECK(blocks[i] = malloc(16 + (i * 37 + number) % 2000));
            memset(blocks[i], number, 16);
        }
        for (int i = 0; i < 40; i++) {
            for (int k = 0; k < 16; k++) CHECK(blocks[i][k] == (unsigned char)number);
            free(blocks[i]);
        }
    }
    check_registered();
    pthread_setspecific(key, malloc(100));
    return NULL;
}

int main(void) {
    enum { THREADS = 10000 };
    CHECK(pthread_key_create(&key, at_end) == 0);
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (i % 2) {
            while (pthread_create(&thread, &detached, work, (void *)(long)i)) usleep(1000);
        } else {
            while (pthread_create(&thread, NULL, work, (void *)(long)i)) usleep(1000);
            CHECK(pthread_join(thread, NULL) == 0);
        }
        if (i % 250 == 0) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                work(NULL);
                _exit(0);
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
    }
    while (atomic_load(&ended) < THREADS) usleep(1000);
    check_registered();
    return 0;
}
