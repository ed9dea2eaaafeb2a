/* The interface of jemalloc 5.3 as vcmalloc's libjemalloc.so.2 has it: docs/reference/jemalloc.md. Written for vcmalloc; programs that
 * were compiled with jemalloc's own header run on it too. */

#ifndef VCMALLOC_JEMALLOC_H
#define VCMALLOC_JEMALLOC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JEMALLOC_VERSION "5.3.0-0-gvcmalloc"
#define JEMALLOC_VERSION_MAJOR 5
#define JEMALLOC_VERSION_MINOR 3
#define JEMALLOC_VERSION_BUGFIX 0
#define JEMALLOC_VERSION_NREV 0
#define JEMALLOC_VERSION_GID "vcmalloc"

/* Flags: the logarithm of an alignment, zeros, a cache, an arena. */
#define MALLOCX_LG_ALIGN(logarithm) ((int)(logarithm))
#define MALLOCX_ALIGN(alignment) ((int)__builtin_ctzl((unsigned long)(alignment)))
#define MALLOCX_ZERO 0x40
#define MALLOCX_TCACHE(cache) ((int)(((unsigned)(cache) + 2u) << 8))
#define MALLOCX_TCACHE_NONE MALLOCX_TCACHE(-1)
#define MALLOCX_ARENA(arena) ((int)(((unsigned)(arena) + 1u) << 20))

/* In place of an arena's number in names of mallctl. */
#define MALLCTL_ARENAS_ALL 4096
#define MALLCTL_ARENAS_DESTROYED 4097

#ifdef __cplusplus
#define VCMALLOC_NOTHROW noexcept
extern "C" {
#else
#define VCMALLOC_NOTHROW __attribute__((nothrow))
#endif

/* Arenas here have no hooks: arena.<i>.extent_hooks refuses them with EFAULT, arenas.create with EAGAIN. */
typedef struct extent_hooks_s extent_hooks_t;
typedef void *(extent_alloc_t)(extent_hooks_t *, void *, size_t, size_t, bool *, bool *, unsigned);
typedef bool (extent_dalloc_t)(extent_hooks_t *, void *, size_t, bool, unsigned);
typedef void (extent_destroy_t)(extent_hooks_t *, void *, size_t, bool, unsigned);
typedef bool (extent_commit_t)(extent_hooks_t *, void *, size_t, size_t, size_t, unsigned);
typedef bool (extent_decommit_t)(extent_hooks_t *, void *, size_t, size_t, size_t, unsigned);
typedef bool (extent_purge_t)(extent_hooks_t *, void *, size_t, size_t, size_t, unsigned);
typedef bool (extent_split_t)(extent_hooks_t *, void *, size_t, size_t, size_t, bool, unsigned);
typedef bool (extent_merge_t)(extent_hooks_t *, void *, size_t, void *, size_t, bool, unsigned);
struct extent_hooks_s {
    extent_alloc_t *alloc;
    extent_dalloc_t *dalloc;
    extent_destroy_t *destroy;
    extent_commit_t *commit;
    extent_decommit_t *decommit;
    extent_purge_t *purge_lazy;
    extent_purge_t *purge_forced;
    extent_split_t *split;
    extent_merge_t *merge;
};

/* The program's own options, and where lines for the operator go. A program may define both. */
extern const char *malloc_conf;
extern void (*malloc_message)(void *opaque, const char *text);

void *mallocx(size_t bytes, int flags) VCMALLOC_NOTHROW;
void *rallocx(void *block, size_t bytes, int flags) VCMALLOC_NOTHROW;
size_t xallocx(void *block, size_t bytes, size_t extra, int flags) VCMALLOC_NOTHROW;
size_t sallocx(const void *block, int flags) VCMALLOC_NOTHROW;
void dallocx(void *block, int flags) VCMALLOC_NOTHROW;
void sdallocx(void *block, size_t bytes, int flags) VCMALLOC_NOTHROW;
size_t nallocx(size_t bytes, int flags) VCMALLOC_NOTHROW;

int mallctl(const char *name, void *old_value, size_t *old_length, void *new_value, size_t new_length) VCMALLOC_NOTHROW;
int mallctlnametomib(const char *name, size_t *mib, size_t *length) VCMALLOC_NOTHROW;
int mallctlbymib(const size_t *mib, size_t length, void *old_value, size_t *old_length, void *new_value, size_t new_length) VCMALLOC_NOTHROW;
void malloc_stats_print(void (*write)(void *opaque, const char *text), void *opaque, const char *letters) VCMALLOC_NOTHROW;
size_t malloc_usable_size(void *block) VCMALLOC_NOTHROW;

#ifdef __cplusplus
}
#endif

#endif
