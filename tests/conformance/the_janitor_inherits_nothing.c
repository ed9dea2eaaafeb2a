// The library's thread has neither the CPU nor the real-time policy of the thread that happened to make it, and none of the
// program's descriptors.
// on: preload locked hardened
#include "janitor.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

static void *wait_forever(void *argument) {
    pause();
    return argument;
}

static int is_inherited(pid_t thread, const cpu_set_t *before) {
    cpu_set_t cpus;
    EXPECT(sched_getaffinity(thread, sizeof cpus, &cpus) == 0, "its CPUs");
    return sched_getscheduler(thread) != SCHED_OTHER || !CPU_EQUAL(&cpus, before);
}

static int descriptors_of(pid_t thread) {
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/fd", thread);
    DIR *folder = opendir(path);
    EXPECT(folder != NULL, "%s", path);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count - 2;
}

int main(void) {
    cpu_set_t before, one;
    EXPECT(sched_getaffinity(0, sizeof before, &before) == 0, "the CPUs of this process");
    int first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    EXPECT(sched_setaffinity(0, sizeof one, &one) == 0, "one CPU for this thread");
    /* Refused to most users. */
    struct sched_param priority = {.sched_priority = 1}, none = {.sched_priority = 0};
    sched_setscheduler(0, SCHED_FIFO, &priority);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, wait_forever, NULL) == 0, "a thread");
    sched_setscheduler(0, SCHED_OTHER, &none);
    EXPECT(sched_setaffinity(0, sizeof before, &before) == 0, "all CPUs again");
    pid_t own = wait_for_janitor();
    EXPECT(own != 0, "the library's thread");
    /* Each is given up some time after the thread was made. */
    int tries = 0;
    while (is_inherited(own, &before) && tries++ < 1000)
        usleep(10 * 1000);
    EXPECT(!is_inherited(own, &before), "the library's thread to be an ordinary one on all CPUs");
    /* Linux before 5.9 has no such call, and the thread then opens no files. */
    if (syscall(SYS_close_range, ~0u, ~0u, 0) != 0 && errno == ENOSYS)
        return 0;
    while (descriptors_of(own) != 0 && tries++ < 1000)
        usleep(10 * 1000);
    EXPECT(descriptors_of(own) == 0, "no descriptors in the library's thread, not %d", descriptors_of(own));
    return 0;
}
