// Limits: set by the program itself, by whoever starts it, or by a control group.
#include "probe.h"
#include <limits.h>

static void set_limit(int resource, size_t value) {
    struct rlimit limit = {value, value};
    EXPECT(setrlimit(resource, &limit) == 0, "a limit of %zu", value);
}

static void become(uid_t user) {
    if (geteuid() != 0)
        SKIP("only root can become somebody else");
    EXPECT(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0, "another user");
}

/* A program's other needs: memory of its own, threads, libraries, children. */
static void expect_room(void) {
    void *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED, "a mapping of 1 MiB");
    munmap(memory, MIB);
    run_threads();
    void *library = dlopen("libm.so.6", RTLD_NOW);
    EXPECT(library != NULL, "a library: %s", dlerror());
    char text[20] = "";
    FILE *child = popen("echo child", "r");
    EXPECT(child != NULL && fgets(text, sizeof text, child) != NULL && strcmp(text, "child\n") == 0, "a child by popen");
    pclose(child);
    live();
}

static void address_space_lowered_to_1_gib(void) {
    free(malloc(100));
    set_limit(RLIMIT_AS, GIB);
    expect_room();
}

static void address_space_lowered_after_work(void) {
    warm();
    set_limit(RLIMIT_AS, GIB);
    expect_room();
}

static void address_space_lowered_to_400_mib(void) {
    set_limit(RLIMIT_AS, 400 * MIB);
    expect_room();
}

static void little_is_reserved(void) {
    warm();
    long kib = status_kib("VmSize");
    EXPECT(kib < 300 * 1024, "less than 300 MiB of address space, not %ld MiB", kib / 1024);
}

static void data_lowered_while_running(void) {
    warm();
    set_limit(RLIMIT_DATA, 200 * MIB);
    expect_room();
}

static void all_memory_locked_by_a_user(void) {
    struct rlimit limit = {256 * MIB, 256 * MIB};
    warm();
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        SKIP("256 MiB may not be locked here");
    become(NOBODY);
    EXPECT(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall below the limit");
    work_and_free(1, 2000);
    grow();
}

static void little_is_locked(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (geteuid() != 0 && limit.rlim_cur < 512 * MIB))
        SKIP("512 MiB may not be locked here");
    warm();
    EXPECT(mlockall(MCL_CURRENT) == 0, "mlockall");
    long kib = status_kib("VmLck");
    EXPECT(kib < 300 * 1024, "less than 300 MiB to be locked, not %ld MiB", kib / 1024);
}

static void *wait_a_little(void *unused) {
    work_and_free(1, 200);
    usleep(100000);
    return unused;
}

/* As many threads as the program may have and not one more. */
static void start_all_threads_allowed(int count) {
    pthread_t thread[8];
    for (int i = 0; i < count; i++) {
        errno = pthread_create(&thread[i], NULL, wait_a_little, NULL);
        EXPECT(errno == 0, "thread %d of %d that are allowed", i + 1, count);
    }
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    grow();
}

static void threads_up_to_a_users_limit(void) {
    set_limit(RLIMIT_NPROC, 4);
    become(40000 + getpid() % 20000); // nobody else's
    start_all_threads_allowed(3);
}

/* A control group that is made for the process, below the root of its hierarchy. */
static char group[PATH_MAX];

static int write_to_group(const char *file, const char *value) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", group, file);
    int opened = open(path, O_WRONLY | O_CLOEXEC);
    int good = opened >= 0 && write(opened, value, strlen(value)) == (ssize_t)strlen(value);
    close(opened);
    return good;
}

static void enter_group(const char *kind, const char *file, const char *file_of_v2, const char *value) {
    static const char *const ROOTS[] = {"/sys/fs/cgroup/%s", "/sys/fs/cgroup"};
    for (int version = 0; version < 2; version++) {
        int length = snprintf(group, sizeof group, ROOTS[version], kind);
        snprintf(group + length, sizeof group - length, "/probe-%d", getpid());
        if (mkdir(group, 0755) != 0)
            continue;
        if (write_to_group(version == 0 ? file : file_of_v2, value) && write_to_group("cgroup.procs", "0"))
            return;
        rmdir(group);
    }
    SKIP("no control group of the kind %s can be made here", kind);
}

static void run_in_group(const char *kind, const char *file, const char *file_of_v2, const char *value,
                         void (*run)(void)) {
    int place[2];
    EXPECT(pipe2(place, O_CLOEXEC) == 0, "a pipe");
    pid_t child = fork();
    if (child == 0) {
        enter_group(kind, file, file_of_v2, value);
        EXPECT(write(place[1], group, sizeof group) == sizeof group, "to tell the group");
        run();
        _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child, "the child");
    close(place[1]);
    if (read(place[0], group, sizeof group) > 0)
        for (int attempt = 0; attempt < 100 && rmdir(group) != 0; attempt++)
            usleep(5000);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        _exit(77);
    EXPECT(status == 0, "the program in its group to succeed, not status %x", status);
}

static void three_threads(void) { start_all_threads_allowed(3); }

static void threads_up_to_a_groups_limit(void) { run_in_group("pids", "pids.max", "pids.max", "4", three_threads); }

/* 40 MiB at once in blocks of one size after the other: what is free must be had again. */
static void live_in_64_mib(void) {
    for (size_t bytes = 1000; bytes < 2 * MIB; bytes *= 4) {
        static unsigned char *block[30 * MIB / 1000];
        size_t count = 30 * MIB / bytes;
        for (size_t i = 0; i < count; i++) {
            block[i] = malloc(bytes);
            EXPECT(block[i] != NULL, "a block of %zu bytes", bytes);
            memset(block[i], 1, bytes);
        }
        for (size_t i = 0; i < count; i++)
            free(block[i]);
    }
    live();
}

static void memory_of_64_mib_in_a_group(void) {
    run_in_group("memory", "memory.limit_in_bytes", "memory.max", "67108864", live_in_64_mib);
}

static void three_descriptors(void) {
    set_limit(RLIMIT_NOFILE, 3);
    work_and_free(1, 2000);
    run_threads();
    grow();
    in_child(grow);
}

static void small_stacks(void) {
    if (!is_again()) {
        set_limit(RLIMIT_STACK, 160 * KIB);
        start_again("with");
    }
    warm();
    live();
}

static void no_file_may_grow(void) {
    signal(SIGXFSZ, SIG_DFL);
    warm();
    set_limit(RLIMIT_FSIZE, 0);
    live();
}

static void no_signals_pending_no_locks_no_queues(void) {
    warm();
    set_limit(RLIMIT_SIGPENDING, 0);
    set_limit(RLIMIT_MSGQUEUE, 0);
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_RTPRIO, 0);
    set_limit(RLIMIT_NICE, 0);
    set_limit(RLIMIT_MEMLOCK, 0);
    become(NOBODY);
    live();
}

static const struct Case CASES[] = {
    CASE(address_space_lowered_to_1_gib),
    CASE(address_space_lowered_after_work),
    CASE(address_space_lowered_to_400_mib),
    CASE(little_is_reserved),
    CASE(data_lowered_while_running),
    CASE(all_memory_locked_by_a_user),
    CASE(little_is_locked),
    CASE(threads_up_to_a_users_limit),
    CASE(threads_up_to_a_groups_limit),
    CASE(memory_of_64_mib_in_a_group),
    CASE(three_descriptors),
    CASE(small_stacks),
    CASE(no_file_may_grow),
    CASE(no_signals_pending_no_locks_no_queues),
};

int main(int argc, char **argv) { return RUN(CASES); }
