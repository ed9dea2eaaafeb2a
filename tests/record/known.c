/* Known events: 1,000 times malloc, realloc, free; threads that come and go; with a second argument a child of fork, which must
   not be recorded, or exec of itself. Ends with 7. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *given) {
    void *blocks[10];
    for (int i = 0; i < 10; i++)
        blocks[i] = malloc(100 + i);
    for (int i = 0; i < 10; i++)
        free(blocks[i]);
    return given;
}

int main(int count, char **words) {
    if (count > 2 && !strcmp(words[2], "exec"))
        return execl("/proc/self/exe", words[0], words[1], (char *)0);
    if (count > 2 && !strcmp(words[2], "abort"))
        abort();
    for (int i = 0; i < 1000; i++)
        free(realloc(malloc(777), 7770));
    if (count > 2 && fork() == 0) {
        for (int i = 0; i < 5000; i++)
            free(malloc(999));
        _exit(0);
    }
    for (int i = 0; i < atoi(words[1]); i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, work, 0) || pthread_join(thread, 0))
            return 1;
    }
    while (wait(0) > 0)
        ;
    return 7;
}
