/* The stack by the unwinder of libgcc_s. In C because its names must be weak: most C programs have no unwinder, and none
   is loaded for our sake. */

#include <stddef.h>
#include <stdint.h>
#include <unwind.h>

#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetIP

typedef _Unwind_Reason_Code (*Backtrace)(_Unwind_Trace_Fn, void *);
typedef _Unwind_Ptr (*GetIP)(struct _Unwind_Context *);

struct walk {
    uintptr_t *frames;
    size_t most, depth;
    GetIP ip;
    /* Where this library's own code is: its frames say nothing about the program. */
    uintptr_t own_start, own_end;
};

static _Unwind_Reason_Code take(struct _Unwind_Context *context, void *argument) {
    struct walk *walk = argument;
    uintptr_t frame = walk->ip(context);
    if (frame == 0 || walk->depth == walk->most)
        return _URC_END_OF_STACK;
    if (frame - walk->own_start >= walk->own_end - walk->own_start)
        walk->frames[walk->depth++] = frame;
    return _URC_NO_REASON;
}

#if VCM_SHARED
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));
#define OWN_START ((uintptr_t)__ehdr_start)
#define OWN_END ((uintptr_t)etext)
#else
/* In a program that links us statically nothing tells our code from its own. */
#define OWN_START 0
#define OWN_END 0
#endif

/* Return addresses of this thread's calls, innermost first, by the given unwinder or, for null, by the one that the
   process was started with. 0 where there is none. */
size_t vcm_unwind(void *backtrace, void *get_ip, uintptr_t *frames, size_t most) {
    Backtrace begin = backtrace ? (Backtrace)backtrace : _Unwind_Backtrace;
    GetIP ip = get_ip ? (GetIP)get_ip : _Unwind_GetIP;
    struct walk walk = {frames, most, 0, ip, OWN_START, OWN_END};
    if (begin == NULL || ip == NULL)
        return 0;
    begin(take, &walk);
    return walk.depth;
}
