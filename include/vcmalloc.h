/* vcmalloc: the functions beyond malloc's own. Link with -lvcmalloc, or preload libvcmalloc.so and look them up with
   dlsym. All functions may be called by any thread at any time and leave errno alone. Sizes are in bytes. */
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

#ifdef __cplusplus
}
#endif

#endif
