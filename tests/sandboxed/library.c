// A library that a program is linked with. Its constructor registers handlers of fork, before a preloaded library
// starts: the first takes the library's own lock, as those of many libraries do; the child's starts the library's
// thread again.
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Whether a child gets the library's thread. */
int library_starts_thread;

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static sem_t done;

static void lock(void) { pthread_mutex_lock(&own); }
static void unlock(void) { pthread_mutex_unlock(&own); }

static void *work(void *unused) {
    for (int i = 0; i < 200; i++) {
        char *block = malloc(5000 + i * 300);
        memset(block, 1, 100);
        free(block);
        free(malloc(300000));
    }
    sem_post(&done);
    return unused;
}

static void start_in_child(void) {
    pthread_t thread;
    struct timespec while_it_allocates = {0, 20000000};
    unlock();
    if (library_starts_thread && sem_init(&done, 0, 0) == 0 && pthread_create(&thread, NULL, work, NULL) == 0)
        nanosleep(&while_it_allocates, NULL);
}

__attribute__((constructor)) static void start(void) { pthread_atfork(lock, unlock, start_in_child); }

/* Allocates while the library's lock is held. */
void library_work(void) {
    void *block[64];
    lock();
    for (int i = 0; i < 64; i++)
        block[i] = malloc(300000 + i * 4096);
    for (int i = 0; i < 64; i++)
        free(block[i]);
    unlock();
}

void library_wait_for_thread(void) { sem_wait(&done); }
