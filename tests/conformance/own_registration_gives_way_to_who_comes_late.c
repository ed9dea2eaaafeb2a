// A library that registers threads after us gets them, by whichever thread it begins: one that has not allocated yet, the main
// thread, those that have allocated for long. Their blocks stay what they are, and allocation goes on. Threads that it does not
// ask for stay ours. Such libraries end the process where one thread can be registered and a later one cannot.
// on: registered
#include "others_registration.h"
#include <string.h>

static _Thread_local struct others_area own_area = {.cpu_id = -1};
static pthread_barrier_t barrier;

static void check_theirs(void) {
    CHECK(others_register(&own_area) == 0 && own_area.cpu_id >= 0);
    errno = 0;
    CHECK(others_register(&own_area) == -1 && errno == EBUSY);
}

static void *fresh(void *argument) {
    check_theirs();
    free(malloc(100));
    return argument;
}

static void churn(void) {
    unsigned char *blocks[300];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 300; i++) {
            CHECK(blocks[i] = malloc(i * 17 + 1));
            memset(blocks[i], i, i * 17 + 1);
        }
        for (int i = 0; i < 300; i++) {
            CHECK(blocks[i][0] == (unsigned char)i && blocks[i][i * 17] == (unsigned char)i);
            free(blocks[i]);
        }
    }
}

static void *old(void *is_asked_for) {
    churn();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    if (is_asked_for) check_theirs();
    churn();
    CHECK(own_area.sequence == 0);
    return NULL;
}

int main(void) {
    enum { THREADS = 6 };
    pthread_t threads[THREADS], thread;
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, old, (void *)(i % 2)) == 0);
    churn();
    pthread_barrier_wait(&barrier);
    CHECK(pthread_create(&thread, NULL, fresh, NULL) == 0 && pthread_join(thread, NULL) == 0);
    check_theirs();
    pthread_barrier_wait(&barrier);
    churn();
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    return others_threads();
}
