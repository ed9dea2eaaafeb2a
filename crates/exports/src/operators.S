/* The names of operators new and delete in the archive. Weak, and apart from what they do: a program that defines some
 * of them itself links, and its own are called. replaced.rs tells them from ours by the table. The shared libraries do
 * not have this file: there a program's come first by the order of loading. */

#if defined(__x86_64__)
#define GO jmp
#else
#define GO b
#endif

.macro form name
    .p2align 4
own_\name:
    .weak \name
    .type \name, %function
\name:
    GO vcm_\name
    .size \name, . - \name
.endm

    .text
    form _Znwm
    form _Znam
    form _ZnwmRKSt9nothrow_t
    form _ZnamRKSt9nothrow_t
    form _ZnwmSt11align_val_t
    form _ZnamSt11align_val_t
    form _ZnwmSt11align_val_tRKSt9nothrow_t
    form _ZnamSt11align_val_tRKSt9nothrow_t
    form _Znwm12__hot_cold_t
    form _Znam12__hot_cold_t
    form _ZnwmRKSt9nothrow_t12__hot_cold_t
    form _ZnamRKSt9nothrow_t12__hot_cold_t
    form _ZnwmSt11align_val_t12__hot_cold_t
    form _ZnamSt11align_val_t12__hot_cold_t
    form _ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t
    form _ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t
    form _ZdlPv
    form _ZdaPv
    form _ZdlPvRKSt9nothrow_t
    form _ZdaPvRKSt9nothrow_t
    form _ZdlPvSt11align_val_t
    form _ZdaPvSt11align_val_t
    form _ZdlPvSt11align_val_tRKSt9nothrow_t
    form _ZdaPvSt11align_val_tRKSt9nothrow_t
    form _ZdlPvm
    form _ZdaPvm
    form _ZdlPvmSt11align_val_t
    form _ZdaPvmSt11align_val_t

/* For each form that others fall back to, in the order of `Simpler`: the linker's choice, and ours. */
.macro entry name
    .quad \name, own_\name
.endm

    .section .data.rel.ro, "aw", %progbits
    .p2align 3
    .globl vcm_forms
    .hidden vcm_forms
vcm_forms:
    entry _Znwm
    entry _Znam
    entry _ZnwmSt11align_val_t
    entry _ZnamSt11align_val_t
    entry _ZdlPv
    entry _ZdaPv
    entry _ZdlPvSt11align_val_t
    entry _ZdaPvSt11align_val_t

    .section .note.GNU-stack, "", %progbits
