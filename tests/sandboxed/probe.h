/* What the probes share. A probe does what some daemon, sandbox or container does around its heap; glibc passes each.
 * Like those of the robustness suite the programs run the case that their first argument names: 0 passed, 77 not on
 * this machine. */
#ifndef PROBE_H
#define PROBE_H

#include "../robustness/case.h"
#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Nobody's, and of a user whose processes nobody else counts. */
enum { NOBODY = 65534 };

/* Lets the heap grow by 20 MiB and gives it back: limits are learned, samples are taken, the janitor has work. */
__attribute__((unused)) static void grow(void) {
    enum { BLOCKS = 1000, BYTES = 20000 };
    static unsigned char *block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc(BYTES);
        EXPECT(block[i] != NULL, "block %d of %d bytes", i, BYTES);
        memset(block[i], i, BYTES);
    }
    for (int i = 0; i < BLOCKS; i++) {
        EXPECT(block[i][0] == (unsigned char)i && block[i][BYTES - 1] == (unsigned char)i, "block %d to be kept", i);
        free(block[i]);
    }
}

__attribute__((unused)) static void run_threads(void) {
    pthread_t thread[2];
    start_workers(thread, 2);
    usleep(5000);
    stop_workers(thread, 2);
}

static sem_t at_work;

static void *begin_and_keep_working(void *argument) {
    void *block[100];
    for (int i = 0; i < 100; i++)
        block[i] = malloc(100000);
    for (int i = 0; i < 100; i++)
        free(block[i]);
    sem_post(&at_work);
    return keep_working(argument);
}

/* Threads that have allocated when this returns: what glibc asks the system when a thread's heap
 * begins and when it first shrinks (it opens two files for that), it has asked. */
__attribute__((unused)) static void start_at_work(pthread_t *threads, long count) {
    atomic_store(&stop_working, 0);
    sem_init(&at_work, 0, 0);
    for (long i = 0; i < count; i++)
        EXPECT(pthread_create(&threads[i], NULL, begin_and_keep_working, (void *)(i + 1)) == 0, "thread %ld", i);
    for (long i = 0; i < count; i++)
        while (sem_wait(&at_work) != 0)
            ;
}

/* A program that has been at work: it had threads, all are joined, and whatever the library does late is done. */
__attribute__((unused)) static void warm(void) {
    run_threads();
    grow();
    usleep(50000);
}

/* What a process must be able to do wherever it finds itself. */
__attribute__((unused)) static void live(void) {
    alarm(100);
    work_and_free(1, 2000);
    grow();
    run_threads();
    pid_t child = fork();
    EXPECT(child >= 0, "to fork");
    if (child == 0) {
        work_and_free(2, 1000);
        run_threads();
        _exit(0);
    }
    expect_success(child, "a child");
    alarm(0);
}

/* Runs in a child of its own what changes the process for good. */
__attribute__((unused)) static void in_child(void (*run)(void)) {
    pid_t child = fork();
    EXPECT(child >= 0, "to fork");
    if (child == 0) {
        run();
        _exit(0);
    }
    expect_success(child, "the child of the probe");
}

/* How a child ends that is to end by a signal or with a code. */
__attribute__((unused)) static int end_of(void (*run)(void)) {
    pid_t child = fork();
    EXPECT(child >= 0, "to fork");
    if (child == 0) {
        run();
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        EXPECT(errno == EINTR, "to wait for a child");
    return status;
}

/* The same program and case once more, with a further argument. */
__attribute__((unused)) static void start_again(const char *argument) {
    char *again[] = {all_arguments[0], all_arguments[1], (char *)argument, NULL};
    execv("/proc/self/exe", again);
    EXPECT(0, "to start again");
}

__attribute__((unused)) static int is_again(void) { return all_arguments[2] != NULL; }

/* Calls once for each thread of this process; what it gets is the thread's status, as /proc shows it. */
__attribute__((unused)) static int each_task(void (*look)(int thread, const char *status)) {
    DIR *folder = opendir("/proc/self/task");
    EXPECT(folder != NULL, "/proc/self/task");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[300], text[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
        close(file);
        if (bytes <= 0)
            continue; /* it has ended meanwhile */
        text[bytes] = 0;
        count++;
        if (look != NULL)
            look(atoi(entry->d_name), text);
    }
    closedir(folder);
    return count;
}

/* The line `name:` of a status, without its name, into `value`. */
__attribute__((unused)) static void field(const char *status, const char *name, char *value, size_t room) {
    const char *line = strstr(status, name);
    EXPECT(line != NULL, "a line %s in a status", name);
    line += strlen(name);
    line += strspn(line, ":\t ");
    snprintf(value, room, "%.*s", (int)strcspn(line, "\n"), line);
}

/* Threads that were joined are counted for a moment more; a library's own would stay, and where one is meant to, nobody
 * waits for long. */
__attribute__((unused)) static int tasks_after_a_while(int expected) {
    int looks = getenv("PROBE_FAILS_BY_DESIGN") != NULL ? 100 : 2000;
    for (int look = 0; look < looks && each_task(NULL) > expected; look++)
        usleep(5000);
    return each_task(NULL);
}

/* One number of /proc/self/status, in KiB. */
__attribute__((unused)) static long status_kib(const char *name) {
    char text[4096], value[64];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    EXPECT(bytes > 0, "/proc/self/status");
    text[bytes] = 0;
    field(text, name, value, sizeof value);
    return atol(value);
}

#endif
