// A process forks while another of its threads hands a heap over. Nobody does so in the child: realloc of a block gives more there, and
// a heap whose end had not come to all blocks can be ended again.
// on: preload locked hardened static
#include "check.h"
#include "heaps.h"
#include <pthread.h>
#include <sys/wait.h>

enum { BLOCKS = 40000, STEP = BLOCKS / 100, BYTES = 100, MORE = 60000, ROUNDS = 5 };

static unsigned char *blocks[BLOCKS];
static vcm_heap heap, above;
static atomic_int begins;

static void *hand_over(void *unused) {
    (void)unused;
    atomic_store(&begins, 1);
    EXPECT(!heaps.destroy(heap, VCM_HEAP_HAND_OVER), "the heap to hand its blocks over");
    return NULL;
}

static void go_on(void) {
    int left = 0;
    for (int i = 0; i < BLOCKS; i += STEP) {
        blocks[i] = realloc(blocks[i], MORE);
        EXPECT(blocks[i], "realloc gives more");
        EXPECT(holds(blocks[i], BYTES, (unsigned)i), "the contents come along");
        left += heaps.of(blocks[i]) == heap;
    }
    if (left)
        EXPECT(!heaps.destroy(heap, VCM_HEAP_HAND_OVER), "the heap can be ended");
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    EXPECT(!heaps.destroy(above, 0), "the heap above can be ended");
}

int main(void) {
    find_heaps();
    for (int round = 0; round < ROUNDS; round++) {
        above = heap_below(VCM_HEAP_NONE, 0);
        heap = heap_below(above, 0);
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = heaps.aligned(heap, 32 * KIB, BYTES);
            EXPECT(blocks[i], "block %d", i);
            fill(blocks[i], BYTES, (unsigned)i);
        }
        atomic_store(&begins, 0);
        pthread_t thread;
        EXPECT(!pthread_create(&thread, NULL, hand_over, NULL), "a thread");
        while (!atomic_load(&begins))
            ;
        usleep(200 + (unsigned)round * 150);
        pid_t child = fork();
        EXPECT(child >= 0, "a child");
        if (child == 0) {
            go_on();
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        EXPECT(status == 0, "the child goes on: %x", status);
        pthread_join(thread, NULL);
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        EXPECT(!heaps.destroy(above, 0), "the heap above can be ended");
    }
    return 0;
}
