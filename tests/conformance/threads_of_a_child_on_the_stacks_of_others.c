// In a child a new thread may stand on the stack of one that stayed in the parent, in the middle of malloc: the C library gives it
// fresh storage, and the heap serves it as any other. The stack is the C library's own, or one that the program gave.
// on: glibc preload locked hardened static
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define STACK (256 * KIB)
#define CHILDREN 60

static volatile int stop;

static void *churn(void *argument) {
    while (!stop) {
        void *volatile block = malloc(400 * KIB);
        free(block);
    }
    return argument;
}

/* More than is kept for handlers inside malloc: only the heap itself has so much. */
static void *take_much(void *argument) {
    for (int i = 0; i < 300; i++) {
        char *block = malloc(MIB);
        EXPECT(block != NULL, "a block in a child");
        block[0] = block[MIB - 1] = 1;
    }
    return argument;
}

static void run(pthread_attr_t *attributes, void *(*work)(void *), pthread_t *thread) {
    EXPECT(pthread_create(thread, attributes, work, NULL) == 0, "a thread");
}

static void try_with(pthread_attr_t *attributes) {
    pthread_t thread;
    stop = 0;
    run(attributes, churn, &thread);
    for (int i = 0; i < CHILDREN; i++) {
        usleep((useconds_t)(i % 7) * 100);
        pid_t child = fork();
        EXPECT(child >= 0, "to fork");
        if (child == 0) {
            run(attributes, take_much, &thread);
            pthread_join(thread, NULL);
            _exit(0);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && status == 0, "a child that ends well, not %#x", (unsigned)status);
    }
    stop = 1;
    pthread_join(thread, NULL);
}

int main(void) {
    pthread_attr_t own, given;
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(stack != MAP_FAILED, "a stack");
    EXPECT(pthread_attr_init(&own) == 0 && pthread_attr_setstacksize(&own, STACK) == 0, "attributes");
    EXPECT(pthread_attr_init(&given) == 0 && pthread_attr_setstack(&given, stack, STACK) == 0, "attributes");
    try_with(&own);
    try_with(&given);
    return 0;
}
