// Shared by the programs of this folder: a check that says what it expected, and ends the program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: expected %s; ", __FILE__, __LINE__, #condition);          \
            std::fprintf(stderr, __VA_ARGS__);                                                     \
            std::fprintf(stderr, "\n");                                                            \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

// True on our library: for the few things where more is promised than gperftools does.
extern "C" const char *vcm_version(void) __attribute__((weak));
static inline bool is_ours() { return vcm_version != nullptr; }
