// A program linked with -static takes the whole family, threads' memory included, from the archive.
// on: static
// flags: -static
// check.h looks symbols up by name at run time, which such a program cannot; so it stays out here.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *vcm_version(void);

static int expect(int condition, const char *what) {
    if (!condition)
        fprintf(stderr, "expected %s\n", what);
    return condition;
}

static void *work(void *argument) {
    for (size_t i = 0; i < 100000; i++) {
        char *block = malloc(1 + i % 3000);
        if (block == NULL)
            return NULL;
        block[i % 3000] = 1;
        free(block);
    }
    return argument;
}

int main(void) {
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        if (!expect(pthread_create(&thread[i], NULL, work, thread) == 0, "a thread"))
            return 1;
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(thread[i], &result);
        if (!expect(result != NULL, "a thread that always gets its block"))
            return 1;
    }
    char *block = strdup(vcm_version());
    block = realloc(block, 1000000);
    int same = block != NULL && strcmp(block, vcm_version()) == 0;
    free(block);
    return expect(same, "a string from the C library, resized by ours") ? 0 : 1;
}
