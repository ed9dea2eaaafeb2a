// Three hundred threads, eight at a time, that take and give back, leak, and leave blocks for a later thread to free.
#include "truth.h"

#define THREADS 304
#define AT_ONCE 8

static pthread_mutex_t passing = PTHREAD_MUTEX_INITIALIZER;
static void *left_behind;

SITE void works(unsigned *random) {
    static const size_t sizes[] = {64, 200, 500, 1000, 2048};
    long taken[5] = {0};
    void *blocks[40];
    for (int round = 0; round < 6; round++) {
        for (int block = 0; block < 40; block++) {
            int size = next_random(random) % 5;
            use(blocks[block] = malloc(sizes[size]));
            taken[size]++;
        }
        for (int block = 0; block < 40; block++)
            free(blocks[block]);
    }
    for (int size = 0; size < 5; size++) {
        took(__func__, sizes[size], taken[size]);
        gave(__func__, sizes[size], taken[size]);
    }
}

SITE void leaks(void) {
    for (int block = 0; block < 30; block++)
        use(malloc(1300));
    took(__func__, 1300, 30);
}

SITE void leaves_behind(void) {
    pthread_mutex_lock(&passing);
    free_all(left_behind);
    if (left_behind != NULL)
        gave(__func__, 3000, 20);
    left_behind = NULL;
    for (int block = 0; block < 20; block++)
        left_behind = pushed(left_behind, malloc(3000));
    took(__func__, 3000, 20);
    pthread_mutex_unlock(&passing);
}

static void *member(void *number) {
    unsigned random = (unsigned)(size_t)number;
    works(&random);
    leaks();
    leaves_behind();
    return number;
}

int main(void) {
    for (size_t first = 0; first < THREADS; first += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (size_t at = 0; at < AT_ONCE; at++)
            pthread_create(&threads[at], NULL, member, (void *)(first + at + 1));
        for (size_t at = 0; at < AT_ONCE; at++)
            pthread_join(threads[at], NULL);
    }
    return tell();
}
