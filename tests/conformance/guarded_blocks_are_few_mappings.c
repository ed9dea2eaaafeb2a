// 20,000 blocks with guard pages of their own take no mappings, where the kernel marks pages (Linux 6.13), and a child of fork has the
// same guards. Without marks each would cost two of the 65,530 mappings that a process may have.
// on: glibc hardened
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { BLOCKS = 20000, BYTES = 40000, MOST_MAPPINGS = 300 };

static char *blocks[BLOCKS];

static int mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0, byte;
    EXPECT(maps != NULL, "to read /proc/self/maps");
    while ((byte = fgetc(maps)) != EOF) lines += byte == '\n';
    fclose(maps);
    return lines;
}

/* How a child ends that reads behind the block, where its guard is. */
static int end_of_reader(const char *block) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        close(2);
        _exit(((volatile const char *)block)[BYTES + 64] != 0);
    }
    EXPECT(waitpid(child, &status, 0) == child, "to wait for the child");
    return status;
}

int main(int count, char **words) {
    (void)count;
    if (!getenv("VCM_GUARD_BUDGET")) {
        setenv("VCM_GUARD_BUDGET", "1000000000", 1);
        execv("/proc/self/exe", words);
    }
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int can_mark = madvise(page, 4096, 102) == 0; /* MADV_GUARD_INSTALL */
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BYTES);
        EXPECT(blocks[i] != NULL, "block %d", i);
        memset(blocks[i], i, 64);
        blocks[i][BYTES - 1] = 1;
    }
    int many = mappings();
    EXPECT(!can_mark || many <= MOST_MAPPINGS, "at most %d mappings, and there are %d", MOST_MAPPINGS, many);
    if (malloc_usable_size(blocks[0]) == BYTES && can_mark) { /* the hardened library */
        int status = end_of_reader(blocks[BLOCKS - 1]);
        EXPECT(WIFSIGNALED(status), "a read of a guard to end a child, and its status is %x", status);
    }
    for (int i = 0; i < BLOCKS; i += 2) free(blocks[i]);
    for (int i = 0; i < BLOCKS; i += 2) {
        blocks[i] = malloc(BYTES);
        EXPECT(blocks[i] != NULL, "block %d once more", i);
        memset(blocks[i], i, BYTES);
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return 0;
}
