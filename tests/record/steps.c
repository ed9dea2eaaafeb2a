/* Does what the lines of its standard input say, and answers each with "ok". A second thread waits, so that there is a janitor
   where the allocator has one. */
#include "worker.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *waiting(void *given) {
    for (;;)
        pause();
    return given;
}

static volatile int stop;

static void *load(void *given) {
    void *blocks[64] = {0};
    for (unsigned i = 0; !stop; i++) {
        free(blocks[i % 64]);
        blocks[i % 64] = malloc(16 + i % 500);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    return given;
}

static void threads(int count, void *(*work)(void *)) {
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, work, 0) || pthread_join(thread, 0))
            exit(1);
    }
}

int main(int count, char **words) {
    static void *before[100];
    pthread_t second, loader[4];
    int loaders = 0;
    char line[64];
    if (count < 2 && pthread_create(&second, 0, waiting, 0))
        return 1;
    for (int i = 0; i < 100; i++)
        before[i] = malloc(2000);
    /* Neither has a buffer on the heap. */
    setvbuf(stdin, 0, _IONBF, 0);
    setvbuf(stdout, 0, _IONBF, 0);
    puts("ok");
    while (fgets(line, sizeof line, stdin)) {
        int number = atoi(line + 1);
        switch (line[0]) {
        case 't':
            threads(number, work);
            break;
        case 'r':
            for (int i = 0; i < number; i++)
                free(realloc(malloc(777), 7770));
            break;
        case 'c':
            for (int i = 0; i < number; i++) {
                void *block = 0;
                void *volatile zeros = calloc(3, 333);
                free(zeros);
                if (posix_memalign(&block, 64, 500))
                    return 1;
                free(block);
            }
            break;
        case 'b':
            for (int i = 0; i < 100; i++)
                free(before[i]);
            memset(before, 0, sizeof before);
            break;
        case 'g': /* grows where it lies, or not */
            for (int i = 0; i < number; i++) {
                char *text = malloc(100000);
                text[0] = 1;
                text = realloc(text, 100001);
                free(text);
            }
            break;
        case 'f': {
            pid_t child = fork();
            if (!child) {
                for (int i = 0; i < number; i++) {
                    void *volatile some = malloc(999);
                    free(some);
                }
                _exit(0);
            }
            waitpid(child, 0, 0);
            break;
        }
        case 'l':
            for (int i = 0; i < number && loaders < 4; i++, loaders++)
                if (pthread_create(&loader[loaders], 0, load, 0))
                    return 1;
            break;
        case 'q':
            stop = 1;
            while (loaders)
                pthread_join(loader[--loaders], 0);
            break;
        case 'x':
            execl("/proc/self/exe", words[0], words[1], (char *)0);
            return 1;
        case 'e':
            return 7;
        }
        puts("ok");
    }
    return 0;
}
