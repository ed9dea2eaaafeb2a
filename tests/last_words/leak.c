// Grows until somebody ends it: blocks of two sites, of which one leaks. It says before what each holds, so that the
// file which it leaves can be compared.
//
//     leak WAY [THREADS]    small, large: the planted site leaks blocks of 1000 bytes, of 1 MiB
//                           doubles: one block that doubles, as a growing array does
//                           refused: until malloc says NULL, then again a hundred times
//                           child: the same in a child of fork, whose number it says
//                           waits: the same once there is a line to read
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

static const char *way;

__attribute__((noinline)) static void *planted_leak(size_t bytes) {
    void *block = malloc(bytes);
    if (block != NULL)
        memset(block, 1, bytes);
    return block;
}

/* What an honest program keeps: 4 MiB, and a cache of as much that it renews. */
__attribute__((noinline)) static void honest_work(void) {
    static void *kept[4096], *cached[1024];
    for (size_t i = 0; i < 4096; i++)
        memset(kept[i] = malloc(KIB), 2, KIB);
    for (size_t i = 0; i < 20000; i++) {
        free(cached[i % 1024]);
        memset(cached[i % 1024] = malloc(4 * KIB), 3, 4 * KIB);
    }
}

static void *leak_for_ever(void *unused) {
    size_t bytes = strcmp(way, "large") == 0 ? MIB : 1000;
    while (planted_leak(bytes) != NULL)
        ;
    return unused;
}

__attribute__((noinline)) static void doubles(void) {
    for (size_t bytes = MIB;; bytes *= 2) {
        char *array = planted_leak(bytes);
        if (array == NULL)
            return;
    }
}

static int is_refused(void) {
    leak_for_ever(NULL);
    for (int i = 0; i < 100; i++) {
        errno = 0;
        if (malloc(MIB) != NULL || errno != ENOMEM)
            return 1;
    }
    return 0;
}

int main(int count, char **arguments) {
    way = count > 1 ? arguments[1] : "small";
    int threads = count > 2 ? atoi(arguments[2]) : 1;
    honest_work();
    if (strcmp(way, "waits") == 0) {
        puts("ready");
        fflush(stdout);
        getchar();
        return is_refused();
    }
    if (strcmp(way, "child") == 0) {
        if (is_refused())
            return 1;
        pid_t child = fork();
        if (child == 0)
            _exit(is_refused());
        int status = 0;
        waitpid(child, &status, 0);
        printf("%d %d\n", (int)getpid(), (int)child);
        return status != 0;
    }
    if (strcmp(way, "refused") == 0 && threads == 1)
        return is_refused();
    if (strcmp(way, "doubles") == 0)
        doubles();
    for (int i = 1; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, leak_for_ever, NULL) != 0)
            return 2;
    }
    /* The janitor is there before the first of them. */
    return strcmp(way, "refused") == 0 ? is_refused() : (leak_for_ever(NULL), 3);
}
