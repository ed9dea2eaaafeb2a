// Misuses of blocks of tenants' heaps, and of blocks whose heap has ended; the first argument chooses one.
#include "../conformance/heaps.h"

enum { BLOCKS = 100 };

static volatile unsigned char *volatile block;

/* Ends a heap with blocks, which the program is to free only. */
static vcm_heap zombie(size_t bytes) {
    vcm_heap heap = heaps.new("brick-7", NULL);
    EXPECT(heap, "a heap");
    block = heaps.malloc(heap, bytes);
    EXPECT(block, "a block");
    EXPECT(!heaps.destroy(heap, VCM_HEAP_ZOMBIE), "an end");
    return heap;
}

static struct vcm_heap_stats seen_of(vcm_heap heap) {
    struct vcm_heap_stats stats = {.size = sizeof stats};
    if (heaps.stats(heap, &stats))
        stats.size = 0;
    return stats;
}

int main(int count, char **arguments) {
    const char *crime = count > 1 ? arguments[1] : "";
    find_heaps();
    vcm_heap heap = heaps.new("brick-7", NULL);
    if (!strcmp(crime, "overflow_found_at_the_end")) {
        block = heaps.malloc(heap, 100);
        block[100] = 1;
        heaps.destroy(heap, VCM_HEAP_FREE);
    } else if (!strcmp(crime, "double_free")) {
        block = heaps.malloc(heap, 100);
        free((void *)block);
        free((void *)block);
    } else if (!strcmp(crime, "free_after_the_end")) {
        block = heaps.malloc(heap, 100);
        heaps.destroy(heap, VCM_HEAP_FREE);
        free((void *)block);
    } else if (!strcmp(crime, "read_after_the_end")) {
        zombie(100);
        return block[50];
    } else if (!strcmp(crime, "write_after_the_end")) {
        zombie(100000);
        block[50] = 1;
    } else if (!strcmp(crime, "realloc_after_the_end")) {
        zombie(100);
        block = realloc((void *)block, 200);
    } else if (!strcmp(crime, "second_late_free")) {
        zombie(100);
        zombie(100);
        free((void *)block);
        free((void *)block);
    } else if (!strcmp(crime, "late_frees")) {
        void *blocks[BLOCKS];
        for (int index = 0; index < BLOCKS; index++)
            blocks[index] = heaps.malloc(heap, (size_t)index * index * 40 + 1);
        EXPECT(!heaps.destroy(heap, VCM_HEAP_ZOMBIE), "an end");
        for (int index = 0; index < BLOCKS; index++) {
            struct vcm_heap_stats stats = seen_of(heap);
            EXPECT(stats.late_frees == (uint64_t)index && stats.live_blocks == (uint64_t)(BLOCKS - index) && stats.draining,
                   "%d late frees, not %d", index, (int)stats.late_frees);
            free(blocks[index]);
        }
        EXPECT(!seen_of(heap).size, "an end with the last one");
        return 0;
    }
    puts("went on");
    return 0;
}
