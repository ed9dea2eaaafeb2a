/* vcmalloc: the functions beyond malloc's own. Link with -lvcmalloc, or preload libvcmalloc.so and look them up with
   dlsym. All functions may be called by any thread at any time. All leave errno alone but vcm_heap_* that return a pointer
   or a heap, as their comments say. Sizes are in bytes. */
#ifndef VCMALLOC_H
#define VCMALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library and the commit of its sources, such as "0.1.0+d5f9679b8f"; "0.1.0" where that is not known. */
const char *vcm_version(void);

/* Sets an option ('vcm config' lists them) of the running process.
   0; ENOENT: no such option; EINVAL: not a value for it; EPERM: it is read at start only. In a signal handler that
   interrupted the heap it takes effect when what was interrupted ends. */
int vcm_option_set(const char *name, const char *value);

/* Writes an option's value as a string, cut to length - 1 bytes and ended by a zero.
   The bytes that the whole value needs without the zero, or -1 where there is no such option. */
int vcm_option_get(const char *name, char *buffer, size_t length);

/* The functions below write text in the same way and return the bytes that all of it needs without the zero:
   each option with its value and origin; the statistics for a reader; the statistics as one JSON object. */
size_t vcm_options_text(char *buffer, size_t length);
size_t vcm_stats_text(char *buffer, size_t length);
size_t vcm_stats_json(char *buffer, size_t length);

/* One figure of the statistics, by its key in the JSON object ("live", "resident", "vcpu_caches", ...).
   0; ENOENT: no such key; EINVAL: a null pointer. */
int vcm_stats_get(const char *key, uint64_t *value);

/* Empties all caches and gives free memory back to the system until at most keep bytes of it are left.
   The bytes that went back. */
size_t vcm_release(size_t keep);

/* Does the same and writes a report for a reader: what went, and which spans are held by how many live bytes. */
size_t vcm_release_text(size_t keep, char *buffer, size_t length);

/* Sets the function that is called when memory_limit was passed (null: none), with the heap's bytes in memory and the
   limit. It runs in a thread of the program that allocates or frees (before Linux 5.9 also in the janitor's, on a stack of
   128 KiB), once at a time; holds no lock of ours, may allocate and free, should drop caches of the program, and must return. */
void vcm_on_pressure(void (*callback)(size_t in_memory, size_t limit));

/* Starts the thread that gives memory back, in programs that link libvcmalloc.a; the shared library does it by itself
   when the program creates its first thread. 0; 1 where it runs already or the option janitor is off. */
int vcm_janitor_start(void);

/* Starts the live heap profile, with about one sample in interval bytes (0: the option sample_interval). What was
   allocated before is not in it. 0; ENOMEM where there is no memory for its tables, or in a signal handler that
   interrupted the heap. */
int vcm_profile_start(size_t interval);

/* Ends the profile. It can be written until the next start. */
void vcm_profile_stop(void);

/* Writes the profile to a file, in the place of one that is there, as text that every pprof reads: for each stack the blocks
   and bytes in use and those allocated since the start, scaled from the samples. What comes and goes within a cache is
   missing from the latter. 0; EINVAL: a null pointer; EIO: the file cannot be written. */
int vcm_profile_write(const char *path);

/* Heaps of tenants: blocks that are counted and bounded as somebody's, and can be freed all at once. A heap is known by a
   number, which is never used again; functions that get one of a heap that has ended say so. All blocks are freed by free().
   In the hardened library a heap's end frees block by block, and finds what was written beside them. */
typedef uint64_t vcm_heap;

#define VCM_HEAP_NONE ((vcm_heap)0)
/* The process's own heap, which malloc serves from. */
#define VCM_HEAP_PROCESS ((vcm_heap)1)

struct vcm_heap_options {
    size_t size;      /* sizeof(struct vcm_heap_options) */
    vcm_heap parent;  /* its limit bounds this heap too; VCM_HEAP_NONE: none */
    size_t limit;     /* of the bytes of the heap's spans, which are 16 KiB to 512 KiB long, one at least for each size class
                         in use, and of those of the heaps below it; 0: none */
    /* Called with the heap, the bytes and the argument where the limit refuses memory; holds no lock of ours, may free. The
       request is tried once more when it returns. Not called for its own requests; while 16 threads are in it, others are
       not told and try once more. It has to return: after a longjmp or the end of its thread out of it, that thread, or a later
       one in its place, is not told any more. */
    void (*on_limit)(vcm_heap heap, size_t bytes, void *argument);
    void *argument;
};

/* Makes a heap; the name (at most 39 bytes, or null) is for reports, options may be null.
   VCM_HEAP_NONE, with errno: ENOMEM, EINVAL (options), ENOENT (parent). */
vcm_heap vcm_heap_new(const char *name, const struct vcm_heap_options *options);

/* As malloc, calloc, aligned_alloc. Null, with errno: ENOMEM (memory, or a limit), EINVAL (no such heap). */
void *vcm_heap_malloc(vcm_heap heap, size_t bytes);
void *vcm_heap_calloc(vcm_heap heap, size_t count, size_t bytes);
void *vcm_heap_aligned(vcm_heap heap, size_t align, size_t bytes);
/* As realloc; the result is a block of the heap, wherever the old one was. realloc() itself leaves a block in its heap. */
void *vcm_heap_realloc(vcm_heap heap, void *block, size_t bytes);

/* The heap that a block belongs to; VCM_HEAP_NONE: it is none of ours. */
vcm_heap vcm_heap_of(void *block);

/* Has malloc and its kind serve this thread from the heap, until vcm_heap_pop gets what this returned: the heap that served it
   before. VCM_HEAP_NONE: there is no such heap, and all is as it was; vcm_heap_pop leaves it so. New threads and signal handlers' threads begin with the
   process's own heap; a fiber that moves to another thread leaves it behind. If the heap ends meanwhile, the process's own
   serves. */
vcm_heap vcm_heap_push(vcm_heap heap);
void vcm_heap_pop(vcm_heap before);

enum {
    VCM_HEAP_FREE = 0,      /* all blocks are freed with it */
    VCM_HEAP_HAND_OVER = 1, /* they belong to the parent from now on */
    VCM_HEAP_DRAIN = 2,     /* it gives no more blocks, and goes when the last one is freed */
    VCM_HEAP_ZOMBIE = 3     /* the same, and the program does nothing with them but free them: in the hardened library an access
                               ends the process with a line that names the heap and where it ended */
};

/* Ends a heap. With VCM_HEAP_FREE nobody else may use it or its blocks meanwhile. 0; ENOENT: no such heap; EBUSY: it is the parent
   of others; EINVAL: no such mode; ENOMEM: it cannot be handed over now, and stays. */
int vcm_heap_destroy(vcm_heap heap, int mode);

/* Frees all blocks of a heap, which stays. Nobody else may use it meanwhile. 0; ENOENT. */
int vcm_heap_reset(vcm_heap heap);

/* Sets its limit, 0 for none; what it has stays. 0; ENOENT. */
int vcm_heap_set_limit(vcm_heap heap, size_t limit);

/* How long pages of its spans are idle before they go to the system, in nanoseconds; UINT64_MAX: as long as release_delay, as in
   a new heap. Counted in quarters of release_delay, one at least; with 0 the memory also goes at once when the heap ends, however
   little it is. 0; ENOENT. */
int vcm_heap_set_release_delay(vcm_heap heap, uint64_t nanoseconds);

/* Gives memory in its spans that nobody uses back to the system. The bytes. */
size_t vcm_heap_release(vcm_heap heap);

struct vcm_heap_stats {
    size_t size;          /* sizeof(struct vcm_heap_stats), before the call */
    uint64_t live;        /* bytes of blocks in use, and how many */
    uint64_t live_blocks;
    uint64_t cached;      /* free in its spans */
    uint64_t bytes;       /* of its spans and those of the heaps below it: what the limit bounds; and the most ever */
    uint64_t peak;
    uint64_t limit;       /* 0: none */
    uint64_t resident;    /* bytes of its own spans that are in memory */
    uint64_t refused;     /* requests that the limit refused */
    uint64_t age;         /* nanoseconds */
    uint64_t children;
    uint64_t draining;    /* 1: it gives no more blocks */
    char name[40];
    uint64_t late_frees;  /* of blocks, since it gives no more */
};

/* 0; ENOENT: no such heap; EINVAL: null, or no size. */
int vcm_heap_stats(vcm_heap heap, struct vcm_heap_stats *stats);

/* Calls take for each heap; for each block of a heap that is in use (0; ENOENT; EINVAL). No lock is held: take may use any heap.
   What comes and goes meanwhile may be among them or not. */
void vcm_heap_each(void (*take)(vcm_heap heap, void *argument), void *argument);
int vcm_heap_each_block(vcm_heap heap, void (*take)(void *block, size_t bytes, void *argument), void *argument);

#ifdef __cplusplus
}
#endif

#endif
