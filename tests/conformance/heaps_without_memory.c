// Where the system gives no more memory, heaps give null and ENOMEM, can be ended in each way, and go on when there is some again:
// under a limit of addresses, and where a filter refuses mmap, mprotect and madvise.
// on: preload locked registered hardened static
// limit: 240
#include "filter.h"
#include "heaps.h"
#include <sys/resource.h>
#include <sys/wait.h>

enum { HEAPS = 24, MOST = 40000 };
static void *block[MOST];

/* Fills heaps below one, with no memory left at the end; how many blocks. */
static int fill_up(vcm_heap *heap, vcm_heap parent) {
    int made = 0, count = 0;
    while (made < HEAPS && (heap[made] = heap_below(parent, 0)) != VCM_HEAP_NONE)
        made++;
    EXPECT(made > 0, "a heap");
    for (int refusals = 0; count < MOST && refusals < 200;) {
        size_t bytes = count % 7 ? 3000 + (size_t)count % 5000 : 300000;
        void *got = heaps.malloc(heap[count % made], bytes);
        if (got == NULL) {
            EXPECT(errno == ENOMEM, "no memory");
            refusals++;
            continue;
        }
        *(unsigned char *)got = (unsigned char)count;
        block[count++] = got;
    }
    EXPECT(count < MOST, "an end of the memory");
    return count;
}

static void live_without_memory(void) {
    vcm_heap heap[HEAPS] = {0}, parent = heap_below(VCM_HEAP_NONE, 0);
    int count = fill_up(heap, parent);
    vcm_heap refused = heap_below(parent, 0);
    if (refused != VCM_HEAP_NONE)
        EXPECT(!heaps.destroy(refused, VCM_HEAP_FREE), "an end of what there was room for");
    vcm_heap before = heaps.push(heap[0]);
    EXPECT(!malloc(100 * MIB) && errno == ENOMEM, "no memory in a scope");
    heaps.pop(before);
    for (int index = 0; index < count; index++)
        EXPECT(*(unsigned char *)block[index] == (unsigned char)index, "contents that stay");
    /* Each way; where it cannot be handed over it stays. */
    for (int index = 0; index < HEAPS && heap[index] != VCM_HEAP_NONE; index++) {
        int ended = heaps.destroy(heap[index], index % 3 ? VCM_HEAP_DRAIN : VCM_HEAP_HAND_OVER);
        EXPECT(ended == 0 || (index % 3 == 0 && ended == ENOMEM), "an end of heap %d, not %d", index, ended);
        if (ended)
            EXPECT(!heaps.destroy(heap[index], VCM_HEAP_DRAIN), "another end");
    }
    for (int index = 0; index < count; index++) {
        EXPECT(*(unsigned char *)block[index] == (unsigned char)index, "contents that stay");
        free(block[index]);
    }
    struct vcm_heap_stats stats = stats_of(parent);
    EXPECT(stats.live_blocks == 0 && stats.children == 0, "nothing left");
    void *again = heaps.malloc(parent, 300000);
    EXPECT(again && !heaps.reset(parent) && stats_of(parent).bytes == 0, "memory again");
    EXPECT(!heaps.destroy(parent, VCM_HEAP_FREE), "an end");
}

static void under_a_limit(void) {
    free(malloc(100));
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    EXPECT(file && fscanf(file, "%lu", &pages) == 1, "this process's addresses");
    fclose(file);
    /* Tables of heaps reserve addresses with the first one. */
    EXPECT(!heaps.destroy(heaps.new("first", NULL), VCM_HEAP_FREE), "a heap");
    struct rlimit limit = {pages * 4096 + 1200 * MIB, RLIM_INFINITY};
    EXPECT(!setrlimit(RLIMIT_DATA, &(struct rlimit){80 * MIB, RLIM_INFINITY}), "a limit of data");
    EXPECT(!setrlimit(RLIMIT_AS, &limit), "a limit of addresses");
}

static void where_calls_are_refused(void) {
    free(malloc(100));
    EXPECT(!heaps.destroy(heaps.new("first", NULL), VCM_HEAP_FREE), "a heap");
    static struct filter filter;
    begin_filter(&filter);
    ANSWER(&filter, SECCOMP_RET_ERRNO | ENOMEM, SYS_mmap, SYS_mprotect, SYS_madvise, SYS_mremap);
    end_filter(&filter, SECCOMP_RET_ALLOW);
    EXPECT(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "a filter to be allowed");
    EXPECT(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter.program), "a filter");
}

int main(void) {
    find_heaps();
    void (*const prepare[])(void) = {under_a_limit, where_calls_are_refused};
    for (int which = 0; which < 2; which++) {
        pid_t child = fork();
        if (child == 0) {
            prepare[which]();
            live_without_memory();
            live_without_memory();
            _exit(0);
        }
        int status;
        EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0, "case %d to end well, not with %x", which, status);
    }
    return 0;
}
