/* Are the library's mappings named in /proc/self/smaps, do they merge as they do without names, and do they go back?
 * The program starts itself as it is and behind a filter for which the kernel has no names, each with guards and memory for
 * handlers, and without: only without, mappings do not depend on chance, and are compared.
 * 77: this kernel has none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define BLOCKS 60000
#define NAMES 4

static const char *const names[NAMES] = {"heap", "tables", "guards", "emergency"};

struct seen {
    int all, named[NAMES], wrong;
    long resident[NAMES];
};

static void look(struct seen *seen, void *const *blocks, int count) {
    char line[400];
    int kind = -1;
    memset(seen, 0, sizeof *seen);
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long start, end, kib;
        char name[200] = "";
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %199[^\n]", &start, &end, name) >= 2) {
            seen->all++;
            kind = -1;
            for (int i = 0; i < NAMES; i++) {
                char whole[64];
                snprintf(whole, sizeof whole, "[anon:vcmalloc-%s]", names[i]);
                kind = strcmp(name, whole) == 0 ? i : kind;
            }
            if (kind >= 0) {
                seen->named[kind]++;
            }
            for (int i = 0; i < count; i += 997) {
                int inside = (uintptr_t)blocks[i] >= start && (uintptr_t)blocks[i] < end;
                seen->wrong += inside && kind != 0 && kind != 2;
            }
        } else if (sscanf(line, "Rss: %lu kB", &kib) == 1 && kind >= 0) {
            seen->resident[kind] += kib;
        }
    }
    if (file) {
        fclose(file);
    }
}

static void allocate_and_free(int signal) {
    (void)signal;
    free(malloc(100));
}

/* A handler that allocates while the heap is busy, until it has met it so, where names tell. */
static void interrupt_the_heap(int is_named) {
    struct seen seen = {0};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, allocate_and_free);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < (is_named ? 50 : 1) && seen.named[NAMES - 1] == 0; round++) {
        for (int i = 0; i < 20000; i++) {
            free(malloc(300000));
        }
        look(&seen, NULL, 0);
    }
    setitimer(ITIMER_REAL, &never, NULL);
}

/* Prints: all mappings, then of each name their number and their KiB, then wrong ones; in use and after a release. */
static int grow(int is_named, int is_guarded) {
    static void *blocks[BLOCKS];
    struct seen full, empty;
    size_t (*release)(size_t) = (size_t (*)(size_t))dlsym(RTLD_DEFAULT, "vcm_release");
    if (is_guarded) {
        interrupt_the_heap(is_named);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (!(blocks[i] = malloc(1000))) {
            return 3;
        }
        memset(blocks[i], 1, 1000);
    }
    look(&full, blocks, BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    if (release) {
        release(0);
    }
    look(&empty, blocks, 0);
    for (struct seen *seen = &full; seen; seen = seen == &full ? &empty : NULL) {
        printf("%d", seen->all);
        for (int i = 0; i < NAMES; i++) {
            printf(" %d %ld", seen->named[i], seen->resident[i]);
        }
        printf(" %d\n", seen->wrong);
    }
    return 0;
}

/* For who is started behind it this kernel has no names. */
static void forget_names(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_VMA, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
        perror("names: a filter");
        _exit(3);
    }
}

static void read_from(int is_named, int is_guarded, struct seen seen[2]) {
    int ends[2];
    if (pipe(ends) != 0) {
        exit(3);
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        if (!is_named) {
            forget_names();
        }
        setenv("VCM_GUARDED_RATE", is_guarded ? "1000" : "0", 1);
        setenv("VCM_SAMPLE_INTERVAL", "2000", 1);
        execl("/proc/self/exe", "names", "grow", is_named ? "named" : "bare", is_guarded ? "guarded" : "plain", (char *)NULL);
        _exit(3);
    }
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    for (int when = 0; when < 2; when++) {
        struct seen *one = &seen[when];
        int got = fscanf(file, "%d", &one->all);
        for (int i = 0; i < NAMES; i++) {
            got += fscanf(file, "%d %ld", &one->named[i], &one->resident[i]);
        }
        if (got + fscanf(file, "%d", &one->wrong) != 2 + 2 * NAMES) {
            fprintf(stderr, "names: the child said too little\n");
            exit(3);
        }
    }
    int status = 0;
    waitpid(child, &status, 0);
    fclose(file);
    if (status != 0) {
        exit(3);
    }
}

int main(int count, char **arguments) {
    if (count == 4 && strcmp(arguments[1], "grow") == 0) {
        return grow(strcmp(arguments[2], "named") == 0, strcmp(arguments[3], "guarded") == 0);
    }
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (prctl(PR_SET_VMA, 0, page, sysconf(_SC_PAGESIZE), "a-name") != 0) {
        fprintf(stderr, "names: this kernel has none\n");
        return 77;
    }
    struct seen named[2], bare[2], plain[2], plain_bare[2];
    read_from(1, 1, named);
    read_from(0, 1, bare);
    read_from(1, 0, plain);
    read_from(0, 0, plain_bare);
    printf("names:");
    for (int i = 0; i < NAMES; i++) {
        printf(" %s %d (%ld KiB)", names[i], named[0].named[i], named[0].resident[i]);
    }
    printf("; mappings without guards %d, without names too %d, after a release %d and %d; heap after a release %ld KiB in %d\n",
        plain[0].all, plain_bare[0].all, plain[1].all, plain_bare[1].all, named[1].resident[0], named[1].named[0]);
    int failed = 0;
    for (int i = 0; i < NAMES; i++) {
        if (named[0].named[i] == 0 || bare[0].named[i] != 0) {
            printf("names: %s: %d, and %d where there are none\n", names[i], named[0].named[i], bare[0].named[i]);
            failed = 1;
        }
    }
    if (named[0].wrong || plain[0].wrong) {
        printf("names: %d and %d blocks outside the heap and the guards\n", named[0].wrong, plain[0].wrong);
        failed = 1;
    }
    failed |= plain[0].all > plain_bare[0].all || plain[1].all > plain_bare[1].all;
    failed |= named[0].resident[0] < BLOCKS - BLOCKS / 20 || named[1].resident[0] > BLOCKS / 10;
    return failed;
}
