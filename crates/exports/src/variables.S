/* The variables that a program of tikv-jemalloc-sys may define itself. Weak, and in assembly: link-time optimisation puts all
 * Rust code into one piece, in which no name may stand twice. */

#ifdef PREFIXED
#define NAME(name) _rjem_##name
/* As the functions: another copy in the process has its own. */
#define HIDE(name) .hidden NAME(name);
#else
#define NAME(name) name
#define HIDE(name)
#endif

#define VARIABLE(name) \
    .weak NAME(name); \
    HIDE(name) \
    .type NAME(name), %object; \
    .size NAME(name), 8; \
    NAME(name): .zero 8

    .bss
    .balign 8
    VARIABLE(malloc_conf)
    VARIABLE(malloc_message)

    .section .note.GNU-stack, "", %progbits
