// A static program of musl's on the archive: threads are registered by the library and may end in any way. A detached
// one unmaps its own memory while it runs: its registration must be gone by then. Children of vfork allocate beside them.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition) \
    do { if (!(condition)) { dprintf(2, "%d: %s\n", __LINE__, #condition); _exit(1); } } while (0)

extern size_t vcm_stats_text(char *, size_t);
static pthread_key_t key;
static atomic_int ended;

/* The kernel takes no second area. */
static int is_registered(void) {
    static _Thread_local struct { int words[8]; } area __attribute__((aligned(32)));
    if (syscall(SYS_rseq, &area, 32, 0, 0x53053053) == 0) {
        EXPECT(syscall(SYS_rseq, &area, 32, 1, 0x53053053) == 0);
        return 0;
    }
    return 1;
}

/* The library's own value was there first and went first: this is after it, and allocation goes on. */
static void at_end(void *value) {
    free(value);
    for (int i = 0; i < 50; i++) free(malloc(40 + i * 16));
    EXPECT(!is_registered());
    atomic_fetch_add(&ended, 1);
}

static void *work(void *argument) {
    unsigned char *blocks[40];
    for (int i = 0; i < 40; i++) {
        EXPECT(blocks[i] = malloc(16 + i * 37));
        memset(blocks[i], (int)(long)argument, 16);
    }
    EXPECT(is_registered());
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 16; k++) EXPECT(blocks[i][k] == (unsigned char)(long)argument);
        free(blocks[i]);
    }
    EXPECT(pthread_setspecific(key, malloc(100)) == 0);
    return NULL;
}

/* A child in our memory allocates beside the threads; its parent is registered again. */
static void share(void) {
    int status;
    pid_t child = vfork();
    if (child == 0) {
        unsigned char *blocks[40];
        for (int i = 0; i < 40; i++) {
            EXPECT(blocks[i] = malloc(16 + i * 37));
            memset(blocks[i], 200, 16);
        }
        for (int i = 0; i < 40; i++) {
            for (int k = 0; k < 16; k++) EXPECT(blocks[i][k] == 200);
            free(blocks[i]);
        }
        EXPECT(!is_registered());
        _exit(0);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    EXPECT(is_registered());
}

int main(void) {
    enum { THREADS = 4000 };
    char text[8192];
    EXPECT(is_registered());
    vcm_stats_text(text, sizeof text);
    EXPECT(strstr(text, "(registered by vcmalloc)") != NULL);
    EXPECT(pthread_key_create(&key, at_end) == 0);
    pthread_attr_t detached;
    EXPECT(pthread_attr_init(&detached) == 0);
    EXPECT(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0);
    for (long i = 0; i < THREADS; i++) {
        pthread_t thread;
        while (pthread_create(&thread, i % 2 ? &detached : NULL, work, (void *)i)) usleep(1000);
        if (i % 20 == 1) share();
        if (i % 2 == 0) EXPECT(pthread_join(thread, NULL) == 0);
    }
    while (atomic_load(&ended) < THREADS) usleep(1000);
    return 0;
}
