// Limits on address space, data, mappings and locked memory; memory that runs out and comes back.
#include "case.h"
#include <sys/stat.h>

static void start_again_under(int resource, size_t bytes) {
    struct rlimit limit = {bytes, bytes};
    EXPECT(setrlimit(resource, &limit) == 0, "a limit of %zu MiB", bytes / MIB);
    char *again[] = {all_arguments[0], all_arguments[1], "inside", NULL};
    execv("/proc/self/exe", again);
    EXPECT(0, "to start again under the limit");
}

static int is_inside(void) { return all_arguments[2] != NULL; }

/* Takes up to `most` bytes in blocks, until there are no more; frees them. Returns the bytes that were had. */
static size_t take_all(size_t bytes, size_t most) {
    enum { BLOCKS = 700000 };
    static void *block[BLOCKS]; /* no memory could be had for it later */
    EXPECT(most / bytes <= BLOCKS, "room for the blocks");
    size_t count = 0;
    errno = 0;
    while (count < most / bytes && (block[count] = malloc(bytes)) != NULL)
        memset(block[count++], 1, bytes);
    EXPECT(count == most / bytes || errno == ENOMEM, "ENOMEM when memory runs out");
    for (size_t i = 0; i < count; i++)
        free(block[i]);
    return count * bytes;
}

static void live_within(int resource, size_t limit) {
    if (!is_inside())
        start_again_under(resource, limit);
    work_and_free(1, 20000);
    static const size_t SIZES[] = {100000, 4000, 2000};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        size_t had = take_all(SIZES[i], limit);
        EXPECT(had >= limit / 2, "at least half of %zu MiB in blocks of %zu bytes, not %zu MiB", limit / MIB, SIZES[i],
               had / MIB);
    }
    work_and_free(2, 20000);
}

static void address_space_of_128_mib(void) { live_within(RLIMIT_AS, 128 * MIB); }
static void address_space_of_256_mib(void) { live_within(RLIMIT_AS, 256 * MIB); }
static void address_space_of_1_gib(void) { live_within(RLIMIT_AS, GIB); }
static void data_of_128_mib(void) { live_within(RLIMIT_DATA, 128 * MIB); }

static size_t mapped_now(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;
    EXPECT(file != NULL && fscanf(file, "%zu", &pages) == 1, "/proc/self/statm");
    fclose(file);
    return pages * 4096;
}

static void limit_address_space_to(size_t more) {
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_AS, &limit) == 0, "the limit");
    limit.rlim_cur = mapped_now() + more;
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0, "a limit");
}

static void address_space_taken_while_running(void) {
    static struct Slot slot[SLOTS];
    work(slot, SLOTS, 1, 20000);
    limit_address_space_to(0);
    work(slot, SLOTS, 2, 50000);
    free_all(slot, SLOTS);
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0, "no limit");
    EXPECT(take_all(100000, 64 * MIB) >= 63 * MIB, "memory after the limit is gone");
}

static void locked_memory(void) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &limit);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        SKIP("mlockall is not allowed here");
    work_and_free(1, 50000);
    malloc_trim(0);
    for (size_t bytes = 1000; bytes < 20 * MIB; bytes *= 3) {
        unsigned char *block = malloc(bytes);
        EXPECT(block != NULL, "%zu bytes", bytes);
        memset(block, 1, bytes);
        free(block);
        malloc_trim(0);
        block = calloc(1, bytes);
        EXPECT(block != NULL && is_zero(block, bytes), "%zu zeros", bytes);
        free(block);
    }
    pthread_t thread[4];
    start_workers(thread, 4);
    usleep(200000);
    stop_workers(thread, 4);
}

static void future_memory_locked_up_to_a_limit(void) {
    // A privileged process is not bound by the limit.
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        SKIP("cannot give up privileges");
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur < 8 * MIB || mlockall(MCL_FUTURE) != 0)
        SKIP("8 MiB may not be locked here");
    for (int round = 0; round < 3; round++) {
        static struct Slot slot[SLOTS];
        work(slot, SLOTS, round, 20000);
        free_all(slot, SLOTS);
        malloc_trim(0);
        unsigned char *block = calloc(1, MIB);
        EXPECT(block == NULL || is_zero(block, MIB), "zeros");
        free(block);
    }
    EXPECT(take_all(10000, 200 * MIB) >= limit.rlim_cur / 4, "a quarter of what may be locked");
}

static void no_mappings_left(void) {
    work_and_free(1, 20000);
    enum { MOST = 200000 };
    void **page = outside(MOST * sizeof *page);
    int count = 0;
    for (; count < MOST; count++) {
        int protection = count % 2 ? PROT_READ : PROT_NONE;
        page[count] = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page[count] == MAP_FAILED)
            break;
    }
    if (count == MOST)
        SKIP("vm.max_map_count is too high to be reached");
    static struct Slot still[SLOTS]; /* no mapping could be had for it */
    work(still, SLOTS, 2, 50000);
    free_all(still, SLOTS);
    malloc_trim(0);
    work(still, SLOTS, 3, 20000);
    while (count-- > 0)
        munmap(page[count], 4096);
    free_all(still, SLOTS);
    EXPECT(take_all(100000, 64 * MIB) >= 63 * MIB, "memory after the mappings are gone");
}

static void overcommit_refused(void) {
    if (getenv("ROBUSTNESS_SYSCTL") == NULL || getuid() != 0)
        SKIP("changes vm.overcommit_memory of the whole machine: set ROBUSTNESS_SYSCTL=1 as root");
    static const char FILE_NAME[] = "/proc/sys/vm/overcommit_memory";
    FILE *setting = fopen(FILE_NAME, "r+");
    int before = setting ? fgetc(setting) : '0';
    if (setting == NULL || before == '2' || fputc('2', (rewind(setting), setting)) == EOF || fflush(setting) != 0)
        SKIP("cannot set %s", FILE_NAME);
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        char *again[] = {all_arguments[0], "plain_work", NULL};
        execv("/proc/self/exe", again);
        _exit(1);
    }
    int status;
    waitpid(child, &status, 0);
    rewind(setting);
    fputc(before, setting);
    fclose(setting);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "work without overcommit, not status %x", status);
}

static void plain_work(void) { work_and_free(1, 50000); }

/* The status of a child that works in a control group of its own. */
/* A new control group with such a limit, of version 1 where one may be made, else of version 2. */
static void make_control_group(char group[80], size_t limit_bytes) {
    static const char *const kinds[2][2] = {
        {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}};
    for (int i = 0; i < 2; i++) {
        char name[120];
        snprintf(group, 80, "%s/vcmalloc-robustness-%d", kinds[i][0], getpid());
        if (mkdir(group, 0755) != 0)
            continue;
        snprintf(name, sizeof name, "%s/%s", group, kinds[i][1]);
        FILE *limit = fopen(name, "r+");
        if (limit != NULL && fprintf(limit, "%zu", limit_bytes) > 0 && fclose(limit) == 0)
            return;
        rmdir(group);
    }
    SKIP("no control group for memory may be made here");
}

static int in_a_control_group(size_t limit_bytes, void (*work)(void)) {
    char group[80], name[120];
    make_control_group(group, limit_bytes);
    pid_t child = fork();
    if (child == 0) {
        snprintf(name, sizeof name, "%s/cgroup.procs", group);
        FILE *members = fopen(name, "w");
        EXPECT(members != NULL && fprintf(members, "%d", getpid()) > 0 && fclose(members) == 0, "to join the group");
        work();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    rmdir(group);
    return status;
}

/* Many sizes one after the other: what was freed must serve the next or go back, or the kernel kills us. */
static void take_many_sizes(void) {
    for (size_t bytes = number("ROBUSTNESS_LEAST_BLOCK", 64); bytes <= 4 * MIB; bytes *= 2)
        EXPECT(take_all(bytes, 40 * MIB) >= 39 * MIB, "40 MiB in blocks of %zu bytes", bytes);
}

static void memory_of_a_control_group(void) {
    int status = in_a_control_group(64 * MIB, take_many_sizes);
    EXPECT(status == 0, "40 MiB at a time to fit 64 MiB, not status %x", status);
}

/* Page faults of large buffers that come and go. */
static long faults_of_buffers(void) {
    static char *ring[16];
    struct rusage before, after;
    unsigned random = 1;
    for (int round = -2000; round < 4000; round++) {
        if (round == 0) {
            usleep(1200000);
            getrusage(RUSAGE_SELF, &before);
        }
        random = random * 1103515245 + 12345;
        char **place = &ring[(random >> 8) % 16];
        size_t bytes = 100000 + (random >> 12) % 200000;
        free(*place);
        *place = malloc(bytes);
        for (size_t at = 0; at < bytes; at += 4096)
            (*place)[at] = 1;
    }
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
}

/* Pages of a file in the group's memory are no reason to give memory back. The hardened library gives that of every block with
   guards back when it is freed, and all above 248 KiB have them: that is its usual cost. With a budget for guards others would
   have them too, more the slower the machine is. */
static void work_beside_page_cache(void) {
    static char *stay[34 * 256], piece[64 * 1024];
    int (*set)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "vcm_option_set");
    EXPECT(set == NULL || set("guard_budget", "0") == 0, "no budget for guards");
    for (int i = 0; i < 34 * 256; i++) {
        stay[i] = malloc(4000);
        EXPECT(stay[i] != NULL, "34 MiB of 64");
        memset(stay[i], 1, 4000);
    }
    long usual = faults_of_buffers();
    FILE *file = tmpfile();
    for (int i = 0; i < 48 * 16; i++)
        EXPECT(file != NULL && fwrite(piece, sizeof piece, 1, file) == 1, "a file of 48 MiB");
    fflush(file);
    fsync(fileno(file));
    long faults = faults_of_buffers();
    EXPECT(faults < usual + 4000 * 3, "few page faults for 4000 buffers, not %ld for %ld", faults, usual);
}

static void page_cache_in_a_control_group(void) {
    int status = in_a_control_group(64 * MIB, work_beside_page_cache);
    EXPECT(status == 0, "work at its usual cost, not status %x", status);
}

static void no_open_files_left(void) {
    struct rlimit limit = {3, 3};
    EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0, "a limit of 3 files");
    pthread_t thread[4];
    start_workers(thread, 4);
    usleep(100000);
    stop_workers(thread, 4);
    malloc_trim(0);
}

static const struct Case CASES[] = {
    CASE(address_space_of_128_mib), CASE(address_space_of_256_mib), CASE(address_space_of_1_gib),
    CASE(data_of_128_mib), CASE(address_space_taken_while_running), CASE(locked_memory),
    CASE(future_memory_locked_up_to_a_limit), CASE(no_mappings_left), CASE(overcommit_refused), CASE(plain_work),
    CASE(memory_of_a_control_group), CASE(page_cache_in_a_control_group), CASE(no_open_files_left),
};

int main(int argc, char **argv) { return RUN(CASES); }
