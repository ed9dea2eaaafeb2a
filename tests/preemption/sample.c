/* A small allocator with one restartable sequence to take and one to give back, to try the torture itself on.
 * With LATE_START the sequences begin after the load they should protect: a preemption between the load and
 * the start loses or doubles a block, and the torture has to find it. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>

enum { CPUS = 256, CLASSES = 4, ENTRIES = 1022, ARENA = 1 << 30 };

/* Only these go through the caches; the rest is taken from the arena and never given back. */
static const size_t class_bytes[CLASSES] = {64, 384, 6144, 0};

struct slab {
    uint64_t top; /* index of the next free entry */
    void *entry[ENTRIES];
};
static struct slab slabs[CLASSES][CPUS];

struct header {
    uint64_t bytes;
    int64_t class;
};

static char *arena(size_t bytes) {
    static _Atomic(char *) start;
    static _Atomic size_t used;
    char *base = atomic_load(&start);
    if (base == NULL) {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        char *fresh = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (!atomic_compare_exchange_strong(&start, &base, fresh))
            munmap(fresh, ARENA);
        else
            base = fresh;
    }
    return base + atomic_fetch_add(&used, (bytes + 15) & ~(size_t)15);
}

/* The area glibc registered for this thread, or null. */
static struct rseq *area(void) {
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    return __rseq_size != 0 && (int)area->cpu_id >= 0 ? area : NULL;
}

#ifdef LATE_START
#define BEGIN ARM LOAD "1:\n"
#else
#define BEGIN ARM "1:\n" LOAD
#endif
#define DESCRIPTOR                                                      \
    ".pushsection __rseq_cs, \"aw\"\n"                                  \
    ".balign 32\n"                                                      \
    "9: .long 0, 0\n"                                                   \
    ".quad 1f, 2f - 1f, 4f\n"                                           \
    ".popsection\n"
#define INPUTS                                                          \
    [area] "r"(area), [slabs] "r"(slabs_of_class), [cs] "i"(offsetof(struct rseq, rseq_cs)), \
        [cpu] "i"(offsetof(struct rseq, cpu_id)), [slab_bytes] SLAB_BYTES(sizeof(struct slab))

#ifdef __x86_64__
#define SLAB_BYTES "i"
#define ARM                                                             \
    "3: leaq 9b(%%rip), %%rax\n"                                        \
    "movq %%rax, %c[cs](%[area])\n"
#define LOAD                                                            \
    "movl %c[cpu](%[area]), %%ecx\n"                                    \
    "imulq %[slab_bytes], %%rcx, %%rcx\n"                               \
    "addq %[slabs], %%rcx\n"                                            \
    "movq (%%rcx), %%rdx\n"
/* The four bytes before the abort handler are the signature that glibc registered. */
#define ABORT                                                           \
    ".pushsection .text.abort, \"ax\"\n"                                \
    ".byte 0x0f, 0xb9, 0x3d\n"                                          \
    ".long 0x53053053\n"                                                \
    "4: jmp 3b\n"                                                       \
    ".popsection\n"

__attribute__((noinline)) static void *pop(struct rseq *area, struct slab *slabs_of_class) {
    void *block = NULL;
    __asm__ volatile(DESCRIPTOR BEGIN
                     "xorl %k[block], %k[block]\n"
                     "testq %%rdx, %%rdx\n"
                     "jz 2f\n"
                     "movq (%%rcx, %%rdx, 8), %[block]\n"
                     "subq $1, %%rdx\n"
                     "movq %%rdx, (%%rcx)\n"
                     "2:\n" ABORT
                     : [block] "=&r"(block)
                     : INPUTS
                     : "rax", "rcx", "rdx", "memory", "cc");
    return block;
}

__attribute__((noinline)) static int push(struct rseq *area, struct slab *slabs_of_class, void *block) {
    int pushed;
    __asm__ volatile(DESCRIPTOR BEGIN
                     "xorl %[pushed], %[pushed]\n"
                     "cmpq %[full], %%rdx\n"
                     "jae 2f\n"
                     "movq %[block], 8(%%rcx, %%rdx, 8)\n"
                     "addq $1, %%rdx\n"
                     "movl $1, %[pushed]\n"
                     "movq %%rdx, (%%rcx)\n"
                     "2:\n" ABORT
                     : [pushed] "=&r"(pushed)
                     : INPUTS, [block] "r"(block), [full] "i"(ENTRIES - 1)
                     : "rax", "rcx", "rdx", "memory", "cc");
    return pushed;
}
#else
#define SLAB_BYTES "r"
#define ARM                                                             \
    "3: adrp x9, 9b\n"                                                  \
    "add x9, x9, :lo12:9b\n"                                            \
    "str x9, [%[area], %[cs]]\n"
#define LOAD                                                            \
    "ldr w10, [%[area], %[cpu]]\n"                                      \
    "madd x10, x10, %[slab_bytes], %[slabs]\n"                          \
    "ldr x11, [x10]\n"
#define ABORT                                                           \
    ".pushsection .text.abort, \"ax\"\n"                                \
    ".inst 0xd428bc00\n"                                                \
    "4: b 3b\n"                                                         \
    ".popsection\n"

__attribute__((noinline)) static void *pop(struct rseq *area, struct slab *slabs_of_class) {
    void *block = NULL;
    __asm__ volatile(DESCRIPTOR BEGIN
                     "mov %[block], xzr\n"
                     "cbz x11, 2f\n"
                     "ldr %[block], [x10, x11, lsl #3]\n"
                     "sub x11, x11, #1\n"
                     "str x11, [x10]\n"
                     "2:\n" ABORT
                     : [block] "=&r"(block)
                     : INPUTS
                     : "x9", "x10", "x11", "memory", "cc");
    return block;
}

__attribute__((noinline)) static int push(struct rseq *area, struct slab *slabs_of_class, void *block) {
    int pushed;
    __asm__ volatile(DESCRIPTOR BEGIN
                     "mov %w[pushed], wzr\n"
                     "cmp x11, %[full]\n"
                     "b.hs 2f\n"
                     "add x11, x11, #1\n"
                     "str %[block], [x10, x11, lsl #3]\n"
                     "mov %w[pushed], #1\n"
                     "str x11, [x10]\n"
                     "2:\n" ABORT
                     : [pushed] "=&r"(pushed)
                     : INPUTS, [block] "r"(block), [full] "r"((uint64_t)ENTRIES - 1)
                     : "x9", "x10", "x11", "memory", "cc");
    return pushed;
}
#endif

static int class_of(size_t bytes) {
    for (int class = 0; class_bytes[class] != 0; class++)
        if (bytes <= class_bytes[class] && bytes * 3 > class_bytes[class])
            return class;
    return -1;
}

void *malloc(size_t bytes) {
    int class = class_of(bytes);
    struct rseq *own = area();
    void *block = class >= 0 && own != NULL ? pop(own, slabs[class]) : NULL;
    if (block != NULL)
        return block;
    struct header *header = (struct header *)arena(sizeof *header + (class < 0 ? bytes : class_bytes[class]));
    header->bytes = bytes;
    header->class = class;
    return header + 1;
}

void free(void *block) {
    if (block == NULL)
        return;
    struct header *header = (struct header *)block - 1;
    struct rseq *own = area();
    if (header->class >= 0 && own != NULL)
        push(own, slabs[header->class], block);
}

void *calloc(size_t count, size_t bytes) {
    void *block = malloc(count * bytes);
    return memset(block, 0, count * bytes);
}

size_t malloc_usable_size(void *block) {
    return block == NULL ? 0 : ((struct header *)block)[-1].bytes;
}

void *realloc(void *block, size_t bytes) {
    size_t old = malloc_usable_size(block);
    void *fresh = bytes == 0 && block != NULL ? NULL : malloc(bytes);
    if (fresh != NULL && block != NULL)
        memcpy(fresh, block, old < bytes ? old : bytes);
    free(block);
    return fresh;
}

void *memalign(size_t alignment, size_t bytes) {
    if (alignment <= 16)
        return malloc(bytes);
    char *block = arena(bytes + alignment + sizeof(struct header)) + sizeof(struct header);
    block += -(uintptr_t)block & (alignment - 1);
    struct header *header = (struct header *)block - 1;
    header->bytes = bytes;
    header->class = -1;
    return block;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = memalign(alignment, bytes);
    return 0;
}
