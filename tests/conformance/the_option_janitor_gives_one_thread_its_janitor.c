// With `janitor=always` a process of one thread has the library's thread, and so have children of fork, of a thread
// too; free memory goes in silence, and the process ends with its last own thread.
// on: preload locked hardened
#include "janitor.h"
#include <pthread.h>
#include <sys/wait.h>

static void expect_one(const char *where) {
    EXPECT(wait_for_janitor() != 0, "the library's thread in %s", where);
}

static void silence(const char *where) {
    int (*stats_get)(const char *, uint64_t *) = function("vcm_stats_get");
    enum { BLOCKS = 200 };
    static void *block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        memset(block[i] = malloc(1000000), 1, 1000000);
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    uint64_t left = 0;
    for (int tries = 0; tries < 300; tries++) {
        usleep(100 * 1000);
        EXPECT(stats_get("dirty_free", &left) == 0, "the figure");
        if (left == 0)
            return;
    }
    EXPECT(0, "the memory to go back in silence, not %zu MiB to stay, in %s", (size_t)(left / MIB), where);
}

static void expect_child(pid_t child, const char *where) {
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "%s to end well, not with %x", where, status);
}

static void in_child(const char *where, int more) {
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        expect_one(where);
        silence(where);
        if (more)
            in_child("a child of a child", 0);
        exit(0);
    }
    expect_child(child, where);
}

/* Its child goes on from here, with this as its main thread, and ends where it returns. */
static void *fork_in_thread(void *argument) {
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        expect_one("a child of a thread");
        return argument;
    }
    expect_child(child, "a child of a thread");
    return argument;
}

static void *nothing(void *argument) {
    return argument;
}

int main(int count, char **arguments) {
    (void)count;
    if (getenv("VCM_JANITOR") == NULL) {
        EXPECT(janitor() == 0, "no such thread without the wish");
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
        pid_t child = fork();
        if (child == 0) {
            usleep(100 * 1000);
            EXPECT(janitor() == 0, "no such thread in a child without the wish");
            _exit(0);
        }
        expect_child(child, "a child without the wish");
        EXPECT(set_option("janitor", "always") == 0, "an option that can be set");
        expect_one("a process that has just wished it");
        setenv("VCM_JANITOR", "always", 1);
        execv("/proc/self/exe", arguments);
        return 1;
    }
    expect_one("a process that has just begun");
    EXPECT(set_option("release_delay", "100ms") == 0, "the option");
    silence("a process of one thread");
    in_child("a child", 1);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, fork_in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    EXPECT(set_option("janitor", "off") == 0 && janitor() == 0, "no such thread from now on");
    return 0;
}
