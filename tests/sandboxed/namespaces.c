// Namespaces, entered by programs that have had threads: unshare, setns and clone.
#include "probe.h"
#include <sys/mount.h>

/* A joined thread counts until the kernel has put it away; so whoever needs to be alone tries more than once. */
static int when_alone(int (*enter)(int, int), int file, int flags) {
    int result = enter(file, flags);
    for (int attempt = 0; attempt < 200 && result != 0 && (errno == EINVAL || errno == EUSERS); attempt++) {
        usleep(5000);
        result = enter(file, flags);
    }
    return result;
}

static int unshare_flags(int unused, int flags) {
    (void)unused;
    return unshare(flags);
}

static void expect_entered(int result, const char *what) {
    if (result != 0 && (errno == EPERM || errno == ENOSYS || errno == ENOSPC))
        SKIP("this machine does not allow %s", what);
    EXPECT(result == 0, "%s to succeed", what);
}

static void unshare_user(void) {
    warm();
    expect_entered(when_alone(unshare_flags, 0, CLONE_NEWUSER), "unshare of the user namespace");
    live();
}

static void unshare_user_is_refused_beside_threads(void) {
    pthread_t thread[2];
    start_workers(thread, 2);
    EXPECT(unshare(CLONE_NEWUSER) != 0 && errno == EINVAL, "EINVAL while there are threads");
    stop_workers(thread, 2);
    live();
}

/* Below the C library: its wrapper of unshare is not asked. */
static void unshare_user_by_raw_call(void) {
    warm();
    EXPECT(tasks_after_a_while(1) == 1, "one thread, which may unshare");
    expect_entered((int)syscall(SYS_unshare, CLONE_NEWUSER), "unshare of the user namespace by a raw call");
}

static void unshare_mount(void) {
    warm();
    expect_entered(unshare(CLONE_NEWNS), "unshare of the mount namespace");
    EXPECT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mounts of its own");
    EXPECT(mount("none", "/proc", "tmpfs", 0, NULL) == 0, "to hide /proc");
    live();
}

/* In a new pid namespace a process cannot have threads, its children can. */
static void unshare_pid(void) {
    warm();
    expect_entered(unshare(CLONE_NEWPID), "unshare of the pid namespace");
    work_and_free(1, 2000);
    grow();
    pid_t child = fork();
    EXPECT(child >= 0, "to fork");
    if (child == 0) {
        EXPECT(getpid() == 1, "to be the first process");
        live();
        _exit(0);
    }
    expect_success(child, "the first process of a pid namespace");
}

static void unshare_time(void) {
    warm();
    if (access("/proc/self/ns/time", F_OK) != 0)
        SKIP("there are no time namespaces here");
    expect_entered(unshare(CLONE_NEWTIME), "unshare of the time namespace");
    work_and_free(1, 2000);
    in_child(live);
}

static void unshare_net_ipc_uts_cgroup(void) {
    warm();
    expect_entered(unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP), "unshare of four more");
    live();
}

static void unshare_files_and_file_system(void) {
    warm();
    EXPECT(unshare(CLONE_FILES | CLONE_FS | CLONE_SYSVSEM) == 0, "unshare of descriptors and working directory");
    live();
}

/* A descriptor of a namespace that a child is in; the child waits until it is killed. */
static int namespace_of_a_child(int flag, const char *name, pid_t *child) {
    int ready[2];
    char byte = 0, path[64];
    EXPECT(pipe2(ready, O_CLOEXEC) == 0, "a pipe");
    *child = fork();
    if (*child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        byte = unshare(flag) == 0 ? 'y' : 'n';
        EXPECT(write(ready[1], &byte, 1) == 1, "to report");
        for (;;)
            pause();
    }
    EXPECT(read(ready[0], &byte, 1) == 1, "the child's report");
    close(ready[0]);
    close(ready[1]);
    if (byte != 'y')
        SKIP("this machine does not allow a namespace for %s", name);
    snprintf(path, sizeof path, "/proc/%d/ns/%s", *child, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    EXPECT(file >= 0, "%s", path);
    return file;
}

static void set_namespace(int flag, const char *name, void (*then)(void)) {
    pid_t child;
    warm();
    int file = namespace_of_a_child(flag, name, &child);
    expect_entered(when_alone(setns, file, flag), "setns");
    close(file);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    then();
}

static void live_in_child(void) { in_child(live); }

static void setns_user(void) { set_namespace(CLONE_NEWUSER, "user", live); }
static void setns_mount(void) { set_namespace(CLONE_NEWNS, "mnt", live); }
static void setns_net(void) { set_namespace(CLONE_NEWNET, "net", live); }

static void setns_time(void) {
    if (access("/proc/self/ns/time", F_OK) != 0)
        SKIP("there are no time namespaces here");
    set_namespace(CLONE_NEWTIME, "time_for_children", live_in_child);
}

static int live_as_first(void *unused) {
    (void)unused;
    EXPECT(getpid() == 1, "to be the first process");
    live();
    _exit(0);
}

static pid_t clone_process(int (*run)(void *), int flags) {
    enum { STACK = 256 * 1024 };
    char *stack = outside(STACK);
    return clone(run, stack + STACK, flags | SIGCHLD, NULL);
}

static void clone_into_new_namespaces(void) {
    int all = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
    warm();
    pid_t child = clone_process(live_as_first, all);
    expect_entered(child < 0, "clone into new namespaces");
    expect_success(child, "a process in namespaces of its own");
}

/* Parent and child both have pid 1: what is the parent's must not be taken for the child's. */
static int clone_as_first(void *unused) {
    (void)unused;
    alarm(100);
    pthread_t thread[2];
    start_workers(thread, 2);
    usleep(20000);
    pid_t child = syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, NULL, NULL, NULL, NULL);
    EXPECT(child >= 0, "to clone");
    if (child == 0) {
        alarm(100);
        EXPECT(unshare(1) != 0 && errno == EINVAL, "EINVAL for flags that nobody can unshare alone");
        _exit(0);
    }
    expect_success(child, "the first process below a first process");
    stop_workers(thread, 2);
    _exit(0);
}

static void first_process_clones_a_first_process(void) {
    pid_t child = clone_process(clone_as_first, CLONE_NEWPID);
    expect_entered(child < 0, "clone into a new pid namespace");
    expect_success(child, "the first process");
}

static const struct Case CASES[] = {
    CASE(unshare_user),
    CASE(unshare_user_is_refused_beside_threads),
    CASE(unshare_user_by_raw_call),
    CASE(unshare_mount),
    CASE(unshare_pid),
    CASE(unshare_time),
    CASE(unshare_net_ipc_uts_cgroup),
    CASE(unshare_files_and_file_system),
    CASE(setns_user),
    CASE(setns_mount),
    CASE(setns_net),
    CASE(setns_time),
    CASE(clone_into_new_namespaces),
    CASE(first_process_clones_a_first_process),
};

int main(int argc, char **argv) { return RUN(CASES); }
