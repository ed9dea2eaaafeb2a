/* One path through an allocator, named by the first argument, with little around it: what it asks the system for on glibc is
 * the program's own. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* A function of ours; null on other allocators. */
static void *ours(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

static void set(const char *name, const char *value) {
    int (*set)(const char *, const char *) = (int (*)(const char *, const char *))ours("vcm_option_set");
    if (set != NULL && set(name, value) != 0)
        exit(3);
}

static void grow(void) {
    enum { COUNT = 160, WRITTEN = 60000 };
    static __thread char *blocks[COUNT];
    for (int number = 0; number < COUNT; number++)
        memset(blocks[number] = malloc(WRITTEN), 1, WRITTEN);
    for (size_t bytes = 1000; bytes < 20 * MIB; bytes *= 3)
        memset(blocks[0] = realloc(blocks[0], bytes), 1, bytes < WRITTEN ? bytes : WRITTEN);
    for (int number = 0; number < COUNT; number += 2)
        free(blocks[number]);
    nap(100);
    for (int number = 1; number < COUNT; number += 2)
        free(blocks[number]);
}

static void *work(void *nothing) {
    grow();
    return nothing;
}

static void threads(void) {
    pthread_t thread[3];
    for (int number = 0; number < 3; number++)
        if (pthread_create(&thread[number], NULL, work, NULL) != 0)
            exit(2);
    for (int number = 0; number < 3; number++)
        pthread_join(thread[number], NULL);
    nap(300);
}

static void report(const char *name) {
    size_t (*text)(char *, size_t) = (size_t (*)(char *, size_t))ours(name);
    static char room[256 << 10];
    if (text != NULL)
        text(room, sizeof room);
}

static void profile(void) {
    int (*start)(size_t) = (int (*)(size_t))ours("vcm_profile_start");
    void (*stop)(void) = (void (*)(void))ours("vcm_profile_stop");
    int (*write_to)(const char *) = (int (*)(const char *))ours("vcm_profile_write");
    if (start != NULL)
        start(16 << 10);
    threads();
    if (write_to != NULL)
        write_to("/dev/null");
    if (stop != NULL)
        stop();
}

static void release(void) {
    size_t (*release)(size_t) = (size_t (*)(size_t))ours("vcm_release");
    threads();
    if (release != NULL)
        release(0);
}

static void refuse(void) {
    set("memory_limit", "20M");
    threads();
    set("hard_limit", "1M");
    free(malloc(300 * MIB));
}

/* All of it in one process, for a filter that holds before. */
static void all(void) {
    profile();
    report("vcm_stats_text");
    report("vcm_stats_json");
    set("janitor", "off");
    set("janitor", "on");
    pid_t child = fork();
    if (child == 0) {
        release();
        refuse();
        exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(4);
}

int main(int count, char **words) {
    const char *path = count > 1 ? words[1] : "start";
    if (strcmp(path, "growth") == 0)
        grow();
    else if (strcmp(path, "threads") == 0)
        threads();
    else if (strcmp(path, "profile") == 0)
        profile();
    else if (strcmp(path, "release") == 0)
        release();
    else if (strcmp(path, "all") == 0)
        all();
    else if (strcmp(path, "limits") == 0 || strcmp(path, "last-words") == 0)
        refuse();
    else if (strcmp(path, "reports") == 0) {
        threads();
        report("vcm_stats_text");
        report("vcm_stats_json");
        report("vcm_options_text");
    } else if (strcmp(path, "fork") == 0) {
        threads();
        pid_t child = fork();
        if (child == 0) {
            threads();
            exit(0);
        }
        waitpid(child, NULL, 0);
    } else if (strcmp(path, "misuse") == 0) {
        threads();
        void *volatile block = malloc(100);
        free(block);
        free(block);
        grow();
    } else
        free(malloc(1));
    return 0;
}
