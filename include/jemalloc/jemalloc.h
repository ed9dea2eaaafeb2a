/* The interface of jemalloc 5.3 as vcmalloc's libjemalloc.so.2 has it: docs/reference/jemalloc.md. Written for vcmalloc; programs that
 * were compiled with jemalloc's own header run on it too. */

#ifndef VCMALLOC_JEMALLOC_H
#define VCMALLOC_JEMALLOC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
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

/* Attributes, for programs that declare the functions once more, as weak ones. A second declaration may not have another exception
 * specification than the first: only what glibc declares too has one. */
#define JEMALLOC_HAVE_ATTR
#define JEMALLOC_ATTR(attribute) __attribute__((attribute))
#define JEMALLOC_ALIGNED(bytes) JEMALLOC_ATTR(aligned(bytes))
#define JEMALLOC_ALLOC_SIZE(argument) JEMALLOC_ATTR(alloc_size(argument))
#define JEMALLOC_ALLOC_SIZE2(one, other) JEMALLOC_ATTR(alloc_size(one, other))
#define JEMALLOC_EXPORT JEMALLOC_ATTR(visibility("default"))
#define JEMALLOC_FORMAT_PRINTF(text, first) JEMALLOC_ATTR(format(printf, text, first))
#define JEMALLOC_FORMAT_ARG(text) JEMALLOC_ATTR(format_arg(text))
#define JEMALLOC_FALLTHROUGH JEMALLOC_ATTR(fallthrough)
#define JEMALLOC_NOINLINE JEMALLOC_ATTR(noinline)
#define JEMALLOC_NOTHROW JEMALLOC_ATTR(nothrow)
#define JEMALLOC_SYS_NOTHROW JEMALLOC_NOTHROW
#define JEMALLOC_SECTION(name) JEMALLOC_ATTR(section(name))
#define JEMALLOC_COLD JEMALLOC_ATTR(cold)
#define JEMALLOC_ALLOCATOR
#define JEMALLOC_RESTRICT_RETURN
#define JEMALLOC_USABLE_SIZE_CONST
#ifdef __cplusplus
#define JEMALLOC_USE_CXX_THROW
#define JEMALLOC_CXX_THROW noexcept(true)
extern "C" {
#else
#define JEMALLOC_CXX_THROW
#endif

/* Arenas here call no hooks: arena.<i>.extent_hooks refuses them with EFAULT, arenas.create with EAGAIN, but for those of no-dump
 * allocators in a process with VCM_DUMP_HEAPS=off. */
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

void *mallocx(size_t bytes, int flags) JEMALLOC_NOTHROW;
void *rallocx(void *block, size_t bytes, int flags) JEMALLOC_NOTHROW;
size_t xallocx(void *block, size_t bytes, size_t extra, int flags) JEMALLOC_NOTHROW;
size_t sallocx(const void *block, int flags) JEMALLOC_NOTHROW;
void dallocx(void *block, int flags) JEMALLOC_NOTHROW;
void sdallocx(void *block, size_t bytes, int flags) JEMALLOC_NOTHROW;
size_t nallocx(size_t bytes, int flags) JEMALLOC_NOTHROW;

int mallctl(const char *name, void *old_value, size_t *old_length, void *new_value, size_t new_length) JEMALLOC_NOTHROW;
int mallctlnametomib(const char *name, size_t *mib, size_t *length) JEMALLOC_NOTHROW;
int mallctlbymib(const size_t *mib, size_t length, void *old_value, size_t *old_length, void *new_value, size_t new_length) JEMALLOC_NOTHROW;
void malloc_stats_print(void (*write)(void *opaque, const char *text), void *opaque, const char *letters) JEMALLOC_NOTHROW;
size_t malloc_usable_size(JEMALLOC_USABLE_SIZE_CONST void *block) JEMALLOC_CXX_THROW JEMALLOC_NOTHROW;

#ifdef __cplusplus
}
#endif

/* The names with je_, where a program asks for them. */
#if (defined(JEMALLOC_MANGLE) || defined(JEMALLOC_NO_DEMANGLE)) && !defined(JEMALLOC_NO_RENAME)
#define je_malloc malloc
#define je_calloc calloc
#define je_realloc realloc
#define je_free free
#define je_aligned_alloc aligned_alloc
#define je_posix_memalign posix_memalign
#define je_memalign memalign
#define je_valloc valloc
#define je_mallocx mallocx
#define je_rallocx rallocx
#define je_xallocx xallocx
#define je_sallocx sallocx
#define je_dallocx dallocx
#define je_sdallocx sdallocx
#define je_nallocx nallocx
#define je_mallctl mallctl
#define je_mallctlnametomib mallctlnametomib
#define je_mallctlbymib mallctlbymib
#define je_malloc_stats_print malloc_stats_print
#define je_malloc_usable_size malloc_usable_size
#define je_malloc_conf malloc_conf
#define je_malloc_message malloc_message
#endif

#endif
