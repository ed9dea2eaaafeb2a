/* Fibers: stacks that any thread may continue. The switch is ours, since swapcontext costs a system call, and in the
   assembler, since no compiler keeps a value that belongs to a thread across a call that it cannot read. */
#ifndef FIBER_H
#define FIBER_H

#include "check.h"
#include <sys/mman.h>

struct fiber {
    void *stack_pointer;
    /* The stack of the thread that runs it now, where a fiber that pauses continues. */
    void *thread_stack_pointer;
    void *stack_top;
};

/* Keeps the registers that a function must keep on this stack, whose pointer goes to `kept`, and continues on the other. */
void fiber_switch(void **kept, void *stack_pointer);
void fiber_first(void);

#if defined(__x86_64__)
__asm__(".text\n.p2align 4\n.globl fiber_switch\n.type fiber_switch, @function\n"
        "fiber_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size fiber_switch, . - fiber_switch\n"
        ".globl fiber_first\n.type fiber_first, @function\n"
        "fiber_first:\nmov %r12, %rdi\ncall *%r13\nud2\n"
        ".size fiber_first, . - fiber_first\n");
enum { KEPT_WORDS = 9, KEPT_ARGUMENT = 3, KEPT_BODY = 2, KEPT_RETURN = 6 };
#elif defined(__aarch64__)
__asm__(".text\n.p2align 4\n.globl fiber_switch\n.type fiber_switch, %function\n"
        "fiber_switch:\n"
        "stp x19, x20, [sp, #-160]!\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\n"
        "stp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\n"
        "ldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"
        "ldp d14, d15, [sp, #144]\nldp x19, x20, [sp], #160\nret\n"
        ".size fiber_switch, . - fiber_switch\n"
        ".globl fiber_first\n.type fiber_first, %function\n"
        "fiber_first:\nmov x0, x19\nblr x20\nbrk #1\n"
        ".size fiber_first, . - fiber_first\n");
enum { KEPT_WORDS = 20, KEPT_ARGUMENT = 0, KEPT_BODY = 1, KEPT_RETURN = 11 };
#else
#error "fiber_switch is written for x86-64 and aarch64"
#endif

enum { FIBER_STACK = 64 << 10, FIBER_GUARD = 64 << 10 };

/* A fiber that begins with `body` when a thread first continues it, on a mapping below which another faults. */
static void fiber_make(struct fiber *fiber, void (*body)(struct fiber *)) {
    unsigned char *stack = mmap(NULL, FIBER_GUARD + FIBER_STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(stack != MAP_FAILED && mprotect(stack + FIBER_GUARD, FIBER_STACK, PROT_READ | PROT_WRITE) == 0, "a stack");
    /* A multiple of 16 when fiber_first calls. */
    uintptr_t *kept = (uintptr_t *)(stack + FIBER_GUARD + FIBER_STACK) - KEPT_WORDS;
    kept[KEPT_ARGUMENT] = (uintptr_t)fiber;
    kept[KEPT_BODY] = (uintptr_t)body;
    kept[KEPT_RETURN] = (uintptr_t)fiber_first;
    *fiber = (struct fiber){.stack_pointer = kept, .stack_top = stack + FIBER_GUARD + FIBER_STACK};
}

/* On a thread's stack: runs the fiber until it pauses. */
static inline void fiber_continue(struct fiber *fiber) {
    fiber_switch(&fiber->thread_stack_pointer, fiber->stack_pointer);
}

/* On a fiber's stack: returns when a thread, any, continues it. */
static inline void fiber_pause(struct fiber *fiber) {
    fiber_switch(&fiber->stack_pointer, fiber->thread_stack_pointer);
}

#endif
