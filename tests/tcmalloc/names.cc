// Linked with one or more of gperftools' libraries: the heap that serves malloc is the one that MallocExtension tells of.
#include "expect.h"
#include <dirent.h>
#include <gperftools/malloc_extension.h>
#include <gperftools/tcmalloc.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static const std::size_t MIB = 1 << 20;

static int threads() {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (dirent *task = readdir(tasks)) {
        count += task->d_name[0] != '.';
    }
    closedir(tasks);
    return count;
}

int main() {
    for (int index = 0; index < 100; index++) {
        std::memset(std::malloc(MIB), 1, MIB);
    }
    std::size_t live = 0, heap = 0;
    EXPECT(MallocExtension::instance()->GetNumericProperty("generic.current_allocated_bytes", &live), "it is known");
    EXPECT(MallocExtension::instance()->GetNumericProperty("generic.heap_size", &heap), "it is known");
    EXPECT(live >= 100 * MIB && heap >= live, "%zu of %zu", live, heap);
    EXPECT(MallocExtension::instance()->GetOwnership(std::malloc(10)) == MallocExtension::kOwned, "of this heap");
    std::thread([] { std::free(std::malloc(100)); }).join();
    // A thread is joined a moment before the system forgets it.
    for (int tries = 0; threads() > 2 && tries < 1000; tries++) {
        usleep(10000);
    }
    EXPECT(!is_ours() || threads() == 2, "%d threads: one janitor", threads());
    if (pid_t child = fork()) {
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "%d", status);
    } else {
        std::free(std::malloc(1000));
        _exit(0);
    }
    std::printf("%s\n", tc_version(nullptr, nullptr, nullptr));
    return 0;
}
