// Shared by the programs of this folder: a check that says what it expected, and ends the program; and short ways to mallctl.
#pragma once

#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: expected %s; ", __FILE__, __LINE__, #condition);               \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

// True on our library: for the few things where more is promised than jemalloc does, or another answer is ours.
const char *vcm_version(void) __attribute__((weak));
static inline bool is_ours(void) { return vcm_version != NULL; }

// A value of a name, which must have one.
#define GET(type, ...)                                                                             \
    ({                                                                                             \
        char name_[128];                                                                           \
        snprintf(name_, sizeof name_, __VA_ARGS__);                                                \
        type value_ = 0;                                                                           \
        size_t length_ = sizeof value_;                                                            \
        int error_ = mallctl(name_, &value_, &length_, NULL, 0);                                   \
        EXPECT(error_ == 0 && length_ == sizeof value_, "%s: %d, %zu bytes", name_, error_, length_); \
        value_;                                                                                    \
    })

#define SET(type, value, ...)                                                                      \
    ({                                                                                             \
        char name_[128];                                                                           \
        snprintf(name_, sizeof name_, __VA_ARGS__);                                                \
        type value_ = (value);                                                                     \
        mallctl(name_, NULL, NULL, &value_, sizeof value_);                                        \
    })

#define DO(...)                                                                                    \
    ({                                                                                             \
        char name_[128];                                                                           \
        snprintf(name_, sizeof name_, __VA_ARGS__);                                                \
        mallctl(name_, NULL, NULL, NULL, 0);                                                       \
    })

static inline void next_epoch(void) { EXPECT(SET(uint64_t, 1, "epoch") == 0, "no epoch"); }

static inline void in_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, run, argument) == 0, "a thread");
    pthread_join(thread, NULL);
}

// A child of fork that does this, and ends well within a minute.
static inline void in_child(void (*act)(void *), void *argument) {
    pid_t child = fork();
    EXPECT(child >= 0, "a child");
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(60);
        act(argument);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT(status == 0, "a child ends by %d", status);
}
