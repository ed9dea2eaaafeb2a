// Eight threads, each with a function and a size of its own; half of what they take, main frees.
#include "truth.h"

#define BLOCKS 8000

static void *handed_over[8];

#define WORKER(number, bytes)                                                                                           \
    SITE void *worker_##number(void *unused) {                                                                          \
        for (int block = 0; block < BLOCKS; block++) {                                                                  \
            void *taken = malloc(bytes);                                                                                \
            use(taken);                                                                                                 \
            if (block % 2 == 0)                                                                                         \
                handed_over[number] = pushed(handed_over[number], taken);                                               \
        }                                                                                                               \
        took(__func__, bytes, BLOCKS);                                                                                  \
        return unused;                                                                                                  \
    }

WORKER(0, 400)
WORKER(1, 600)
WORKER(2, 800)
WORKER(3, 1200)
WORKER(4, 1600)
WORKER(5, 2000)
WORKER(6, 4000)
WORKER(7, 6000)

int main(void) {
    void *(*const workers[])(void *) = {worker_0, worker_1, worker_2, worker_3, worker_4, worker_5, worker_6, worker_7};
    static const char *const names[] = {"worker_0", "worker_1", "worker_2", "worker_3",
                                        "worker_4", "worker_5", "worker_6", "worker_7"};
    static const size_t sizes[] = {400, 600, 800, 1200, 1600, 2000, 4000, 6000};
    pthread_t threads[8];
    for (int at = 0; at < 8; at++)
        pthread_create(&threads[at], NULL, workers[at], NULL);
    for (int at = 0; at < 8; at++)
        pthread_join(threads[at], NULL);
    for (int at = 0; at < 8; at++) {
        free_all(handed_over[at]);
        gave(names[at], sizes[at], BLOCKS / 2);
    }
    return tell();
}
