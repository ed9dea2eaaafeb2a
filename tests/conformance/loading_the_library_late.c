// A program on glibc's malloc can load the library, use it beside its own, close it, and fork: nothing
// breaks, and what was loaded stays.
// on: glibc
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

static void *(*late_malloc)(size_t);
static void *(*late_realloc)(void *, size_t);
static void (*late_free)(void *);

static void use_both(void) {
    for (int i = 0; i < 2000; i++) {
        size_t bytes = 1 + (i * 131) % 9000;
        unsigned char *ours = late_malloc(bytes), *glibcs = malloc(bytes);
        EXPECT(ours != NULL && glibcs != NULL && ours != glibcs, "two blocks");
        fill(ours, bytes, 1);
        fill(glibcs, bytes, 2);
        ours = late_realloc(ours, bytes * 2);
        EXPECT(holds(ours, bytes, 1) && holds(glibcs, bytes, 2), "two heaps that do not overlap");
        late_free(ours);
        free(glibcs);
    }
}

static void *work(void *argument) {
    use_both();
    return argument;
}

static void run_threads(void) {
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&thread[i], NULL, work, NULL) == 0, "a thread");
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

int main(void) {
    const char *path = getenv("CONFORMANCE_LIBRARY");
    EXPECT(path != NULL, "CONFORMANCE_LIBRARY to name the library");
    unsigned char *before = malloc(5000);
    fill(before, 5000, 3);
    for (int round = 0; round < 20; round++) {
        void *handle = dlopen(path, round % 2 == 0 ? RTLD_NOW | RTLD_LOCAL : RTLD_LAZY | RTLD_GLOBAL);
        EXPECT(handle != NULL, "to load it: %s", dlerror());
        late_malloc = (void *(*)(size_t))dlsym(handle, "malloc");
        late_realloc = (void *(*)(void *, size_t))dlsym(handle, "realloc");
        late_free = (void (*)(void *))dlsym(handle, "free");
        EXPECT(late_malloc != NULL && late_malloc != malloc, "its malloc");
        use_both();
        run_threads();
        unsigned char *kept = late_malloc(1000);
        fill(kept, 1000, 4);
        EXPECT(dlclose(handle) == 0, "to close it");
        EXPECT(holds(kept, 1000, 4), "its blocks to stay after it was closed");
        late_free(kept);
        use_both();
        run_threads();
    }
    pid_t child = fork();
    if (child == 0) {
        use_both();
        run_threads();
        _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "a child to succeed, not status %x", status);
    EXPECT(holds(before, 5000, 3), "the program's own blocks to stay");
    free(before);
    return 0;
}
