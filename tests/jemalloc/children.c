// A child of fork has its parent's arenas and its thread's, and may end them.
#include "expect.h"
#include <sys/wait.h>
#include <unistd.h>

static void in_child(unsigned arena, void *block) {
    EXPECT(GET(unsigned, "thread.arena") == arena, "%u", GET(unsigned, "thread.arena"));
    void *own = malloc(100);
    free(block);
    free(own);
    EXPECT(SET(unsigned, 0, "thread.arena") == 0, "back");
    EXPECT(DO("arena.%u.destroy", arena) == 0, "it ends");
    EXPECT(GET(unsigned, "arenas.create") == arena, "its number is used again");
    next_epoch();
    _exit(0);
}

int main(void) {
    unsigned arena = GET(unsigned, "arenas.create");
    EXPECT(SET(unsigned, arena, "thread.arena") == 0, "%u", arena);
    void *block = malloc(1000);
    for (int round = 0; round < 10; round++) {
        pid_t child = fork();
        if (child == 0) {
            in_child(arena, block);
        }
        int status = 1;
        waitpid(child, &status, 0);
        EXPECT(status == 0, "%d", status);
    }
    EXPECT(GET(unsigned, "thread.arena") == arena, "the parent's is as it was");
    free(block);
    return 0;
}
