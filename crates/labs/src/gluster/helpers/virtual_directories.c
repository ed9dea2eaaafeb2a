/*
 * Preloaded into bricks where the limit of open files is low and cannot be raised. A brick holds 256 directories
 * open, .glusterfs/00 to ff. Here such a directory is a number made of its parent's descriptor and its byte, and
 * each call that is relative to one becomes a call relative to its parent.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define VIRTUAL 0x20000000
#define LONGEST 4200

#define NEXT(name)                                                                                                 \
    static __typeof__(name) *next;                                                                                 \
    if (!next)                                                                                                     \
        next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* The path as seen from the parent; the descriptor becomes the parent's. */
static const char *seen(int *directory, const char *path, char *room) {
    if (*directory < VIRTUAL || path[0] == '/')
        return path;
    snprintf(room, LONGEST, "%02x/%s", *directory & 255, path);
    *directory = (*directory - VIRTUAL) >> 8;
    return room;
}

static int digit(int character) {
    return isdigit(character) ? character - '0' : tolower(character) - 'a' + 10;
}

static int is_byte(const char *path) {
    return isxdigit((unsigned char)path[0]) && isxdigit((unsigned char)path[1]) && !path[2];
}

int openat64(int directory, const char *path, int flags, ...) {
    NEXT(openat64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    if (directory >= 0 && directory < VIRTUAL && (flags & O_DIRECTORY) && is_byte(path)) {
        struct stat there;
        if (fstatat(directory, path, &there, 0) != 0)
            return -1;
        return VIRTUAL | directory << 8 | digit(path[0]) << 4 | digit(path[1]);
    }
    char room[LONGEST];
    path = seen(&directory, path, room);
    return next(directory, path, flags, mode);
}

int mkdirat(int directory, const char *path, mode_t mode) {
    NEXT(mkdirat);
    char room[LONGEST];
    path = seen(&directory, path, room);
    return next(directory, path, mode);
}

int unlinkat(int directory, const char *path, int flags) {
    NEXT(unlinkat);
    char room[LONGEST];
    path = seen(&directory, path, room);
    return next(directory, path, flags);
}

int symlinkat(const char *target, int directory, const char *path) {
    NEXT(symlinkat);
    char room[LONGEST];
    path = seen(&directory, path, room);
    return next(target, directory, path);
}

ssize_t readlinkat(int directory, const char *path, char *target, size_t bytes) {
    NEXT(readlinkat);
    char room[LONGEST];
    path = seen(&directory, path, room);
    return next(directory, path, target, bytes);
}

int fstatat64(int directory, const char *path, struct stat64 *there, int flags) {
    NEXT(fstatat64);
    char room[LONGEST];
    path = seen(&directory, path, room);
    return next(directory, path, there, flags);
}

int linkat(int from, const char *old, int to, const char *path, int flags) {
    NEXT(linkat);
    char old_room[LONGEST], room[LONGEST];
    old = seen(&from, old, old_room);
    path = seen(&to, path, room);
    return next(from, old, to, path, flags);
}

int utimensat(int directory, const char *path, const struct timespec times[2], int flags) {
    NEXT(utimensat);
    char room[LONGEST];
    if (path)
        path = seen(&directory, path, room);
    return next(directory, path, times, flags);
}

int close(int descriptor) {
    NEXT(close);
    return descriptor >= VIRTUAL ? 0 : next(descriptor);
}
