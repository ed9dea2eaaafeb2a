/* Stands in for libvcmalloc.so: exports malloc and vcm_version, and proves its start as the library does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

/* The whole set, because the program may be linked with another allocator. */
void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void free(void *block) { __libc_free(block); }

const char *vcm_version(void) { return "0.0-stub"; }

#ifdef _STAND_IN
/* gperftools' interface, by which the stand-in is known. */
void *_STAND_IN(void) { return 0; }
#endif

__attribute__((constructor)) static void prove(void) {
    const char *number = getenv("VCM_RUN_PROOF");
    int descriptor = number ? atoi(number) : -1;
    int seals = fcntl(descriptor, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_GROW)) return;
    Dl_info winner, own;
    if (!dladdr(dlsym(RTLD_DEFAULT, "malloc"), &winner) || !dladdr((void *)vcm_version, &own)) return;
    const char *object = winner.dli_fbase == own.dli_fbase ? "ours" : winner.dli_fname;
    char line[512];
    int length = snprintf(line, sizeof line, "vcmalloc %s pid %d malloc %s front locked\n", vcm_version(),
                          (int)getpid(), object);
    if (write(descriptor, line, length) < 0) return;
}
