/* Allocates, says so, and waits for ever: with a second thread, and so with a janitor, where it is told to; and where it is
   told to, without the environment that it was started with. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static void *wait_for_ever(void *unused) {
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t thread;
    for (int i = 0; i < 200; i++) {
        char *block = malloc(100000);
        memset(block, 1, 100000);
        free(block);
    }
    if (count > 1 && pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
        return 1;
    if (count > 2) {
        /* The text of the start lies in one piece, and the program keeps no other. */
        char *begin = environ[0], *end = begin;
        for (char **entry = environ; *entry; entry++)
            end = *entry + strlen(*entry);
        memset(begin, 0, (size_t)(end - begin));
        environ = arguments + count;
    }
    puts("ready");
    fflush(stdout);
    wait_for_ever(NULL);
    return 0;
}
