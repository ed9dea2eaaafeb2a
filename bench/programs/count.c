/* Counts what a program asks of malloc, for the rule of the set `untuned` (docs/decisions/0122):
 *   gcc -O2 -shared -fPIC -o count.so count.c
 *   COUNT=FILE LD_PRELOAD=./count.so COMMAND
 * Each process appends a line to FILE as it ends: its name, mallocs, peak of usable bytes, milliseconds of CPU. It calls glibc's
 * functions by their internal names, since dlsym allocates before they are known. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static unsigned long mallocs, live, peak;

static void *counted(void *block) {
    if (!block) return block;
    __atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED);
    unsigned long now = __atomic_add_fetch(&live, malloc_usable_size(block), __ATOMIC_RELAXED);
    if (now > peak) peak = now;
    return block;
}

void *malloc(size_t bytes) { return counted(__libc_malloc(bytes)); }
void *calloc(size_t many, size_t bytes) { return counted(__libc_calloc(many, bytes)); }
void *memalign(size_t to, size_t bytes) { return counted(__libc_memalign(to, bytes)); }
void *aligned_alloc(size_t to, size_t bytes) { return counted(__libc_memalign(to, bytes)); }
int posix_memalign(void **block, size_t to, size_t bytes) {
    *block = counted(__libc_memalign(to, bytes));
    return *block ? 0 : ENOMEM;
}
void free(void *block) {
    if (!block) return;
    __atomic_sub_fetch(&live, malloc_usable_size(block), __ATOMIC_RELAXED);
    __libc_free(block);
}
void *realloc(void *block, size_t bytes) {
    size_t before = block ? malloc_usable_size(block) : 0;
    void *grown = __libc_realloc(block, bytes);
    if (grown || bytes == 0) __atomic_sub_fetch(&live, before, __ATOMIC_RELAXED);
    return counted(grown);
}

static void tell(void) {
    static int is_told;
    const char *file = getenv("COUNT");
    if (!file || is_told++) return;
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    char line[200];
    int length = snprintf(line, sizeof line, "%s\t%lu\t%lu\t%ld\n", program_invocation_short_name, mallocs, peak,
                          used.tv_sec * 1000 + used.tv_nsec / 1000000);
    int out = open(file, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (out >= 0 && length > 0 && write(out, line, length) != length) length = 0;
    close(out);
}

/* A child counts its own. */
static void in_child(void) { mallocs = 0; }
__attribute__((constructor)) static void at_start(void) { pthread_atfork(NULL, NULL, in_child); }
__attribute__((destructor)) static void at_end(void) { tell(); }
void _exit(int code) {
    tell();
    for (;;) syscall(SYS_exit_group, code);
}
