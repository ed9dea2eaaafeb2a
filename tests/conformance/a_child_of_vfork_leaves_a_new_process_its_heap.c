// A child of fork that has not used its heap yet makes a child in its memory, which does: the process is the parent's for all that, so a
// thread that it makes has a janitor beside it.
// on: preload hardened
// flags: -pthread
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>

static int threads(void) {
    DIR *directory = opendir("/proc/self/task");
    EXPECT(directory != NULL, "/proc/self/task");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static pthread_barrier_t counted;

static void *wait_until_counted(void *nothing) {
    pthread_barrier_wait(&counted);
    return nothing;
}

int main(void) {
    free(malloc(MIB));
    pid_t child = fork();
    if (child == 0) {
        pid_t borrower = vfork();
        if (borrower == 0) {
            free(malloc(3 * MIB));
            _exit(0);
        }
        int status = 0;
        EXPECT(waitpid(borrower, &status, 0) == borrower && status == 0, "a child of vfork to end well, not with %x", status);
        pthread_t thread;
        pthread_barrier_init(&counted, NULL, 2);
        EXPECT(pthread_create(&thread, NULL, wait_until_counted, NULL) == 0, "a thread");
        int count = threads();
        EXPECT(count == 3, "a main thread, one of the program's and a janitor, not %d threads", count);
        pthread_barrier_wait(&counted);
        pthread_join(thread, NULL);
        exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "a child of fork to end well, not with %x", status);
    return 0;
}
