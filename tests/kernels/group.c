/* Does the library know the limit of a control group of memory, and does a program stay within it? `group 1|2`: the
 * version, whose hierarchy is mounted where the library looks for it. Programs start in a group of 64 MiB: one takes
 * 100 MiB and must be ended by the kernel, or the group limits nothing; one has 40 MiB in blocks of each size, one after
 * the other, and must come to its end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define LIMIT (64 * MIB)
#define AT_ONCE (40 * MIB)

static char group[100];

static void file_of_group(char path[200], const char *file) {
    snprintf(path, 200, "%s/%s", group, file);
}

static void write_number(const char *file, unsigned long number) {
    char path[200];
    file_of_group(path, file);
    FILE *stream = fopen(path, "r+");
    if (!stream || fprintf(stream, "%lu", number) < 0 || fclose(stream) != 0) {
        perror(path);
        exit(3);
    }
}

static long read_number(const char *file) {
    char path[200];
    long number = -1;
    file_of_group(path, file);
    FILE *stream = fopen(path, "r");
    if (stream && fscanf(stream, "%ld", &number) != 1) {
        number = -1;
    }
    if (stream) {
        fclose(stream);
    }
    return number;
}

/* Not through malloc: what it would refuse is no proof. */
static int exceed(void) {
    char *bytes = mmap(NULL, 100 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(bytes, 1, 100 * MIB);
    return 0;
}

static int stay(void) {
    static void *blocks[AT_ONCE / 64];
    int (*get)(const char *, uint64_t *) = (int (*)(const char *, uint64_t *))dlsym(RTLD_DEFAULT, "vcm_stats_get");
    for (size_t bytes = 64; bytes <= 4 * MIB; bytes *= 2) {
        size_t count = AT_ONCE / bytes;
        for (size_t i = 0; i < count; i++) {
            if (!(blocks[i] = malloc(bytes))) {
                fprintf(stderr, "group: no block of %zu bytes\n", bytes);
                return 1;
            }
            memset(blocks[i], 1, bytes);
        }
        for (size_t i = 0; i < count; i++) {
            free(blocks[i]);
        }
    }
    uint64_t limit = 0;
    if (!get || get("memory_limit", &limit) != 0) {
        fprintf(stderr, "group: no figure of the limit\n");
        return 1;
    }
    printf("%llu ", (unsigned long long)(limit >> 10));
    fflush(stdout);
    /* 90 % of what others in the group leave. */
    return limit > LIMIT / 2 && limit <= LIMIT / 10 * 9 ? 0 : 2;
}

/* The status of this program, started in the group. */
static int run_in_group(const char *what) {
    pid_t child = fork();
    if (child == 0) {
        write_number("cgroup.procs", (unsigned long)getpid());
        execl("/proc/self/exe", "group", what, (char *)NULL);
        _exit(3);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

int main(int count, char **words) {
    if (count == 2 && !strcmp(words[1], "exceed")) return exceed();
    if (count == 2 && !strcmp(words[1], "stay")) return stay();
    int version = count == 2 ? atoi(words[1]) : 0;
    if (version != 1 && version != 2) {
        fprintf(stderr, "usage, on vcmalloc: group 1|2\n");
        return 64;
    }
    snprintf(group, sizeof group, "%s/kernels-%d", version == 1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup", getpid());
    if (mkdir(group, 0755) != 0) {
        perror(group);
        return 3;
    }
    write_number(version == 1 ? "memory.limit_in_bytes" : "memory.max", LIMIT);
    printf("group: version %d of 65536 KiB: soft limit ", version);
    fflush(stdout);
    int stayed = run_in_group("stay");
    /* Version 2 tells since 5.19. */
    long most = read_number(version == 1 ? "memory.max_usage_in_bytes" : "memory.peak");
    int exceeded = run_in_group("exceed");
    if (most >= 0) {
        printf("KiB, at most %ld KiB", most >> 10);
    } else {
        printf("KiB");
    }
    printf("; who has 40 MiB at a time ended with %x, who took 100 MiB with %x\n", stayed, exceeded);
    fflush(stdout);
    if (version == 1) {
        write_number("memory.force_empty", 0);
    }
    if (rmdir(group) != 0) {
        perror(group);
    }
    return stayed == 0 && WIFSIGNALED(exceeded) && WTERMSIG(exceeded) == SIGKILL ? 0 : 1;
}
