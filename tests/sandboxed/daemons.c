// Daemons: how processes are made, named, confined and ended.
#include "probe.h"
#include <signal.h>
#include <spawn.h>

extern char **environ;
extern int library_starts_thread;
extern void library_work(void);
extern void library_wait_for_thread(void);

static void daemon_by_the_c_library(void) {
    int done[2];
    char byte = 0;
    warm();
    EXPECT(pipe(done) == 0, "a pipe");
    pid_t child = fork();
    if (child == 0) {
        EXPECT(daemon(0, 0) == 0, "to become a daemon");
        live();
        EXPECT(write(done[1], "y", 1) == 1, "to report");
        _exit(0);
    }
    expect_success(child, "the daemon's parent");
    close(done[1]);
    EXPECT(read(done[0], &byte, 1) == 1 && byte == 'y', "the daemon to live");
}

static void daemon_by_two_forks(void) {
    int done[2];
    char byte = 0;
    EXPECT(pipe(done) == 0, "a pipe");
    pthread_t thread;
    start_workers(&thread, 1);
    pid_t child = fork();
    if (child == 0) {
        EXPECT(setsid() == getpid(), "a session of its own");
        pid_t grandchild = fork();
        if (grandchild != 0)
            _exit(grandchild < 0);
        umask(0);
        EXPECT(chdir("/") == 0, "the root folder");
        live();
        EXPECT(write(done[1], "y", 1) == 1, "to report");
        exit(0);
    }
    expect_success(child, "the daemon's parent");
    close(done[1]);
    EXPECT(read(done[0], &byte, 1) == 1 && byte == 'y', "the daemon to live");
    stop_workers(&thread, 1);
}

static void a_new_root(void) {
    char folder[] = "/tmp/probe-root-XXXXXX";
    EXPECT(mkdtemp(folder) != NULL, "a folder");
    free(malloc(100));
    /* From inside the folder has no name that could be removed. */
    int parent = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int result = chroot(folder);
    int error = errno;
    EXPECT(unlinkat(parent, strrchr(folder, '/') + 1, AT_REMOVEDIR) == 0, "to remove the folder");
    close(parent);
    if (result != 0 && error == EPERM)
        SKIP("only root may change its root");
    EXPECT(result == 0 && chdir("/") == 0, "a new root");
    live();
    warm();
}

static void children_by_vfork_and_spawn(void) {
    pthread_t thread;
    start_workers(&thread, 1);
    char *arguments[] = {"true", NULL};
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execv("/bin/true", arguments);
            _exit(1);
        }
        expect_success(child, "a child by vfork");
        EXPECT(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0, "to spawn");
        expect_success(child, "a child by posix_spawn");
        EXPECT(i != 0 || system("exit 7") == 7 << 8, "the code of system");
    }
    stop_workers(&thread, 1);
}

/* By single-threaded parents: glibc promises no malloc in other children of these. */
static void children_by_clone_and_underscore_fork(void) {
    warm();
    pid_t child = _Fork();
    if (child == 0)
        live(), _exit(0);
    expect_success(child, "a child by _Fork");
    child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        work_and_free(1, 2000);
        grow();
        _exit(0);
    }
    expect_success(child, "a child by clone");
}

static void *nothing(void *unused) { return unused; }

static void *fork_and_return(void *unused) {
    pid_t child = fork();
    EXPECT(child >= 0, "to fork");
    if (child == 0) {
        pthread_t thread;
        alarm(100);
        EXPECT(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
        return unused;
    }
    expect_success(child, "a child whose only thread has returned");
    return unused;
}

/* Like a program that returned from main: with the last thread's end the process ends, with code 0. */
static void fork_in_a_thread_that_returns(void) {
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&thread, NULL, fork_and_return, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
}

static atomic_int stop_library;

static void *work_in_library(void *unused) {
    while (!atomic_load(&stop_library))
        library_work();
    return unused;
}

static void fork_beside_a_library_with_a_lock(void) {
    pthread_t thread;
    alarm(100);
    EXPECT(pthread_create(&thread, NULL, work_in_library, NULL) == 0, "a thread");
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        EXPECT(child >= 0, "to fork");
        if (child == 0)
            library_work(), _exit(0);
        expect_success(child, "a child");
    }
    atomic_store(&stop_library, 1);
    pthread_join(thread, NULL);
}

static void a_library_starts_a_thread_in_children(void) {
    library_starts_thread = 1;
    free(malloc(100000));
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        EXPECT(child >= 0, "to fork");
        if (child == 0) {
            alarm(100);
            free(malloc(200000));
            library_wait_for_thread();
            _exit(0);
        }
        expect_success(child, "a child whose library works");
    }
}

static void *end_later(void *unused) {
    usleep(20000);
    work_and_free(1, 1000);
    return unused;
}

static void leave_main(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, end_later, NULL) == 0, "a thread");
    pthread_exit(NULL);
}

static void *exit_with_5(void *unused) {
    exit(5);
    return unused;
}

static void exit_in_a_thread(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, exit_with_5, NULL) == 0, "a thread");
    pause();
}

static void change_code(void) { free(malloc(100000)), _exit(8); }
static void exit_with_handler(void) { atexit(change_code), exit(1); }
static void exit_quickly(void) { at_quick_exit(change_code), atexit(abort), quick_exit(1); }
static void exit_at_once(void) { run_threads(), atexit(abort), _exit(9); }
static void abort_after_work(void) { run_threads(), abort(); }

static void processes_end_as_they_say(void) {
    warm();
    static const struct {
        void (*run)(void);
        int status;
    } ENDS[] = {{leave_main, 0},        {exit_in_a_thread, 5 << 8}, {exit_with_handler, 8 << 8},
                {exit_quickly, 8 << 8}, {exit_at_once, 9 << 8},     {abort_after_work, SIGABRT}};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        prctl(PR_SET_DUMPABLE, 0);
        int status = end_of(ENDS[i].run);
        EXPECT(status == ENDS[i].status, "end %zu with status %x, not %x", i, ENDS[i].status, status);
    }
}

static void threads_are_the_programs(void) {
    warm();
    int count = tasks_after_a_while(1);
    EXPECT(count == 1, "one thread after all were joined, not %d", count);
}

static void the_name_is_the_programs(void) {
    char name[16] = "";
    EXPECT(prctl(PR_SET_NAME, "probe-name") == 0, "a name");
    warm();
    in_child(grow);
    EXPECT(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "probe-name") == 0, "the name to stay, not %s", name);
}

static int policies_and_masks_wrong, usable;

static void look_at_thread(int thread, const char *status) {
    char cpus[100];
    field(status, "Cpus_allowed_list", cpus, sizeof cpus);
    if (thread == getpid() || strstr(status, "Name:\tvcm-janitor") == NULL)
        return;
    cpu_set_t set;
    sched_getaffinity(thread, sizeof set, &set);
    policies_and_masks_wrong += sched_getscheduler(thread) != SCHED_OTHER || CPU_COUNT(&set) != usable;
}

/* Of a real-time program on one CPU a thread of ours has neither the priority nor the CPU. */
static void a_real_time_program_keeps_its_cpu(void) {
    cpu_set_t all, one;
    struct sched_param first = {.sched_priority = 1};
    EXPECT(sched_getaffinity(0, sizeof all, &all) == 0, "the CPUs");
    usable = CPU_COUNT(&all);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    if (sched_setscheduler(0, SCHED_FIFO, &first) != 0)
        SKIP("no real-time priority is to be had here");
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    grow();
    usleep(50000);
    each_task(look_at_thread);
    EXPECT(policies_and_masks_wrong == 0, "an ordinary thread on all CPUs");
}

static void confined_by_prctl(void) {
    warm();
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    live();
    EXPECT(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0, "what was set to stay");
}

/* The signal comes at the end of the thread that forked; so who forked may not be a thread of ours. */
static void the_parents_end_is_noticed(void) {
    int alive[2];
    char byte;
    warm();
    EXPECT(pipe(alive) == 0, "a pipe");
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            warm();
            EXPECT(write(alive[1], "y", 1) == 1, "to report");
            for (;;)
                pause();
        }
        EXPECT(read(alive[0], &byte, 1) == 1, "the grandchild");
        run_threads();
        _exit(0);
    }
    expect_success(child, "the parent that ends");
    close(alive[1]);
    EXPECT(read(alive[0], &byte, 1) == 0, "the grandchild to end with its parent");
}

static void nobody_waits_for_a_child_of_ours(void) {
    warm();
    EXPECT(waitpid(-1, NULL, __WALL) < 0 && errno == ECHILD, "no child but the program's");
}

int version(void) { return 1; }

static void a_plugin_is_bound_to_itself(void) {
    const char *path = getenv("PROBE_PLUGIN");
    EXPECT(path != NULL, "the path of plugin.c's library in PROBE_PLUGIN");
    void *plugin = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
    EXPECT(plugin != NULL, "the plugin: %s", dlerror());
    int (*ask)(void) = (int (*)(void))dlsym(plugin, "version_of_plugin");
    EXPECT(ask != NULL && ask() == 2 && version() == 1, "the plugin's own version, not the program's");
    EXPECT(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == plugin, "the same plugin");
    EXPECT(dlclose(plugin) == 0 && dlclose(plugin) == 0, "to close it twice");
    live();
}

static void environment_and_arguments_are_overwritten(void) {
    warm();
    for (int i = 0; i < 300; i++) {
        char name[30];
        snprintf(name, sizeof name, "PROBE_%d", i);
        EXPECT(setenv(name, "value", 1) == 0, "a variable");
    }
    live();
    EXPECT(strcmp(getenv("PROBE_299"), "value") == 0 && clearenv() == 0 && getenv("PROBE_299") == NULL, "no variables");
    live();
    environ = NULL;
    /* As setproctitle does: over all of the arguments and of what was the environment behind them. */
    for (char **argument = all_arguments; *argument != NULL; argument++)
        memset(*argument, 'x', strlen(*argument));
    live();
    warm();
}

static const struct Case CASES[] = {
    CASE(daemon_by_the_c_library),
    CASE(daemon_by_two_forks),
    CASE(a_new_root),
    CASE(children_by_vfork_and_spawn),
    CASE(children_by_clone_and_underscore_fork),
    CASE(fork_in_a_thread_that_returns),
    CASE(fork_beside_a_library_with_a_lock),
    CASE(a_library_starts_a_thread_in_children),
    CASE(processes_end_as_they_say),
    CASE(threads_are_the_programs),
    CASE(the_name_is_the_programs),
    CASE(a_real_time_program_keeps_its_cpu),
    CASE(confined_by_prctl),
    CASE(the_parents_end_is_noticed),
    CASE(nobody_waits_for_a_child_of_ours),
    CASE(a_plugin_is_bound_to_itself),
    CASE(environment_and_arguments_are_overwritten),
};

int main(int argc, char **argv) { return RUN(CASES); }
