/*
 * C++'s operators. An allocator that has its own does not call malloc by name, so they are recorded here; those of
 * libstdc++ do, and are only passed through. Calling each once while nothing is recorded tells which.
 *
 * In C, because an exception (std::bad_alloc) passes through these functions, and they have nothing to clean up.
 * operators.rs exports them.
 */
#include <dlfcn.h>
#include <stddef.h>

extern void *malloc(size_t);
extern void *aligned_alloc(size_t, size_t);
extern void free(void *);
extern void abort(void) __attribute__((noreturn));

/* record.rs and start.rs */
extern void vcm_interposer_begun(void *block, size_t bytes, size_t alignment);
extern void vcm_interposer_ended(void *block);
extern unsigned long vcm_interposer_calls(void);

typedef void *new_plain(size_t);
typedef void *new_nothrow(size_t, const void *);
typedef void *new_aligned(size_t, size_t);
typedef void *new_aligned_nothrow(size_t, size_t, const void *);
typedef void delete_plain(void *);
typedef void delete_more(void *, size_t);
typedef void delete_most(void *, size_t, size_t);

static const char nothrow = 0;

/* name, type, parameters behind the first, their names, of what alignment, whether it may return nothing */
#define NEWS(is) \
    is(_Znwm, new_plain, (size_t bytes), (bytes), 0, 0) \
    is(_Znam, new_plain, (size_t bytes), (bytes), 0, 0) \
    is(_ZnwmRKSt9nothrow_t, new_nothrow, (size_t bytes, const void *tag), (bytes, tag), 0, 1) \
    is(_ZnamRKSt9nothrow_t, new_nothrow, (size_t bytes, const void *tag), (bytes, tag), 0, 1) \
    is(_ZnwmSt11align_val_t, new_aligned, (size_t bytes, size_t to), (bytes, to), to, 0) \
    is(_ZnamSt11align_val_t, new_aligned, (size_t bytes, size_t to), (bytes, to), to, 0) \
    is(_ZnwmSt11align_val_tRKSt9nothrow_t, new_aligned_nothrow, (size_t bytes, size_t to, const void *tag), \
       (bytes, to, tag), to, 1) \
    is(_ZnamSt11align_val_tRKSt9nothrow_t, new_aligned_nothrow, (size_t bytes, size_t to, const void *tag), \
       (bytes, to, tag), to, 1)

/* name, the operator that makes what it takes, type, parameters, their names, those to try it with */
#define DELETES(is) \
    is(_ZdlPv, _Znwm, delete_plain, (void *block), (block), (block)) \
    is(_ZdaPv, _Znam, delete_plain, (void *block), (block), (block)) \
    is(_ZdlPvm, _Znwm, delete_more, (void *block, size_t bytes), (block, bytes), (block, 64)) \
    is(_ZdaPvm, _Znam, delete_more, (void *block, size_t bytes), (block, bytes), (block, 64)) \
    is(_ZdlPvRKSt9nothrow_t, _Znwm, delete_more, (void *block, size_t tag), (block, tag), (block, (size_t)&nothrow)) \
    is(_ZdaPvRKSt9nothrow_t, _Znam, delete_more, (void *block, size_t tag), (block, tag), (block, (size_t)&nothrow)) \
    is(_ZdlPvSt11align_val_t, _ZnwmSt11align_val_t, delete_more, (void *block, size_t to), (block, to), (block, 64)) \
    is(_ZdaPvSt11align_val_t, _ZnamSt11align_val_t, delete_more, (void *block, size_t to), (block, to), (block, 64)) \
    is(_ZdlPvmSt11align_val_t, _ZnwmSt11align_val_t, delete_most, (void *block, size_t bytes, size_t to), \
       (block, bytes, to), (block, 64, 64)) \
    is(_ZdaPvmSt11align_val_t, _ZnamSt11align_val_t, delete_most, (void *block, size_t bytes, size_t to), \
       (block, bytes, to), (block, 64, 64)) \
    is(_ZdlPvSt11align_val_tRKSt9nothrow_t, _ZnwmSt11align_val_t, delete_most, \
       (void *block, size_t to, size_t tag), (block, to, tag), (block, 64, (size_t)&nothrow)) \
    is(_ZdaPvSt11align_val_tRKSt9nothrow_t, _ZnamSt11align_val_t, delete_most, \
       (void *block, size_t to, size_t tag), (block, to, tag), (block, 64, (size_t)&nothrow))

/* Of each: the operator behind ours, and whether it is an allocator's own. */
#define NEXT_NEW(name, type, parameters, names, alignment, nothing) \
    static struct { type *next; int own; } of##name;
#define NEXT_DELETE(name, from, type, parameters, names, trial) \
    static struct { type *next; int own; } of##name;
NEWS(NEXT_NEW)
DELETES(NEXT_DELETE)

/* No library has the operator: the program loaded C++ later, where names of this library's neighbours are not searched. */
static void *without(size_t bytes, size_t alignment, int nothing) {
    if (!bytes)
        bytes = 1;
    void *block = alignment ? aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : malloc(bytes);
    if (!block && !nothing)
        abort();
    return block;
}

#define OPERATOR_NEW(name, type, parameters, names, alignment, nothing) \
    void *vcm_interposer##name parameters { \
        if (__builtin_expect(!of##name.next, 0)) \
            return without(bytes, alignment, nothing); \
        void *block = of##name.next names; \
        if (of##name.own && block) \
            vcm_interposer_begun(block, bytes, alignment); \
        return block; \
    }
NEWS(OPERATOR_NEW)

#define OPERATOR_DELETE(name, from, type, parameters, names, trial) \
    void vcm_interposer##name parameters { \
        if (__builtin_expect(!of##name.next, 0)) { \
            free(block); \
            return; \
        } \
        if (of##name.own && block) \
            vcm_interposer_ended(block); \
        of##name.next names; \
    }
DELETES(OPERATOR_DELETE)

static void *made(void *next, size_t alignment, int nothing) {
    if (alignment)
        return nothing ? ((new_aligned_nothrow *)next)(64, 64, &nothrow) : ((new_aligned *)next)(64, 64);
    return nothing ? ((new_nothrow *)next)(64, &nothrow) : ((new_plain *)next)(64);
}

/* Called once, before anything is recorded and while there is one thread. */
void vcm_interposer_find_operators(void) {
    const size_t to = 64;
#define TRY_NEW(name, type, parameters, names, alignment, nothing) \
    if ((of##name.next = (type *)dlsym(RTLD_NEXT, #name))) { \
        unsigned long before = vcm_interposer_calls(); \
        void *block = made((void *)of##name.next, alignment, nothing); \
        of##name.own = vcm_interposer_calls() == before; \
        delete_plain *undo = (delete_plain *)dlsym(RTLD_NEXT, "_ZdlPv"); \
        delete_more *undo_aligned = (delete_more *)dlsym(RTLD_NEXT, "_ZdlPvSt11align_val_t"); \
        if (block && !(alignment) && undo) \
            undo(block); \
        else if (block && (alignment) && undo_aligned) \
            undo_aligned(block, 64); \
    }
    NEWS(TRY_NEW)
#define TRY_DELETE(name, from, type, parameters, names, trial) \
    if ((of##name.next = (type *)dlsym(RTLD_NEXT, #name))) { \
        void *block = of##from.next ? made((void *)of##from.next, __builtin_strlen(#from) > 6 ? to : 0, 0) : NULL; \
        if (block) { \
            unsigned long before = vcm_interposer_calls(); \
            of##name.next trial; \
            of##name.own = vcm_interposer_calls() == before; \
        } \
    }
    DELETES(TRY_DELETE)
}
