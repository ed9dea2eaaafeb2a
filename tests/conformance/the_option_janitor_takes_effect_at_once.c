// When `janitor` was set to off, the library's thread has ended; when it was set to on, there is one again.
// on: preload locked hardened
#include "janitor.h"
#include <pthread.h>

static void *allocate(void *argument) {
    free(malloc(100000));
    return argument;
}

int main(void) {
    EXPECT(set_option("janitor", "off") == 0 && set_option("janitor", "on") == 0, "an option that can be set");
    EXPECT(janitor() == 0, "no thread in a program that has made none");
    pthread_t thread;
    for (int i = 0; i < 20; i++) {
        EXPECT(pthread_create(&thread, NULL, allocate, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
        EXPECT(wait_for_janitor() != 0, "the library's thread");
        EXPECT(set_option("janitor", "off") == 0, "an option that can be set");
        EXPECT(janitor() == 0, "no such thread from now on");
        EXPECT(pthread_create(&thread, NULL, allocate, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
        EXPECT(janitor() == 0, "no such thread after another of the program's");
        EXPECT(set_option("janitor", "on") == 0, "an option that can be set");
        EXPECT(wait_for_janitor() != 0, "the library's thread again");
    }
    return 0;
}
