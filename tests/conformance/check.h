/* What every conformance program shares: expectations, contents, and the proof that it runs on the allocator it should. */
#ifndef CHECK_H
#define CHECK_H

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

/* One less is the largest size glibc considers; hidden from the compiler, which warns about such sizes. */
static volatile size_t beyond_ptrdiff = (size_t)PTRDIFF_MAX + 1;

/* Says what was expected and leaves. Formats on the stack: the heap may be what is broken. */
__attribute__((noreturn, format(printf, 4, 5), unused)) static void
fail(const char *file, int line, const char *condition, const char *format, ...) {
    char text[512];
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dprintf(2, "%s:%d: expected %s\n  (%s is false; errno is %d)\n", file, line, text, condition, error);
    _exit(1);
}

#define EXPECT(condition, ...)                                            \
    do {                                                                  \
        if (!(condition))                                                 \
            fail(__FILE__, __LINE__, #condition, __VA_ARGS__);            \
    } while (0)

/* Calls once and expects null with ENOMEM. */
#define EXPECT_NO_MEMORY(call)                                            \
    do {                                                                  \
        errno = 0;                                                        \
        void *no_memory_ = (call);                                        \
        EXPECT(no_memory_ == NULL, "%s to give null", #call);             \
        EXPECT(errno == ENOMEM, "%s to set errno to ENOMEM", #call);      \
    } while (0)

__attribute__((unused)) static int is_aligned(const void *pointer, size_t alignment) {
    return (uintptr_t)pointer % alignment == 0;
}

/* A byte that depends on its place and on the seed, so that shifted or foreign contents show. */
static inline unsigned char pattern(size_t index, unsigned seed) {
    return (unsigned char)((index * 131u) ^ (index >> 8) ^ (seed * 29u));
}

__attribute__((unused)) static void fill(void *block, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)block)[i] = pattern(i, seed);
}

__attribute__((unused)) static int holds(const void *block, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)block)[i] != pattern(i, seed))
            return 0;
    return 1;
}

__attribute__((unused)) static int is_zero(const void *block, size_t bytes) {
    const unsigned char *byte = (const unsigned char *)block;
    return bytes == 0 || (byte[0] == 0 && memcmp(byte, byte + 1, bytes - 1) == 0);
}

/* A function that glibc 2.36 does not declare. */
__attribute__((unused)) static void *function(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    EXPECT(found != NULL, "the library to export %s", name);
    return found;
}

static inline unsigned next_random(unsigned *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* The runner says which allocator the program should have: a preload that failed must not pass as a success. */
__attribute__((constructor)) static void check_the_allocator(void) {
    const char *wanted = getenv("CONFORMANCE_ON");
    if (wanted == NULL || strcmp(wanted, "any") == 0)
        return;
    Dl_info malloc_info_, version_info;
    void *version = dlsym(RTLD_DEFAULT, "vcm_version");
    if (strcmp(wanted, "glibc") == 0) {
        EXPECT(version == NULL, "the program to run on glibc");
        return;
    }
    EXPECT(version != NULL, "the program to run on vcmalloc, but there is no vcm_version");
    EXPECT(dladdr(version, &version_info) != 0 && dladdr(dlsym(RTLD_DEFAULT, "malloc"), &malloc_info_) != 0,
           "malloc and vcm_version to lie in a known object");
    EXPECT(version_info.dli_fbase == malloc_info_.dli_fbase, "vcmalloc's malloc, not that of %s",
           malloc_info_.dli_fname);
}

#endif
