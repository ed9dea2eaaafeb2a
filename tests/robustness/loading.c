// Libraries that come late, go, are bound differently; descriptors, environments and privileges that are missing.
#include "case.h"
#include <fcntl.h>
#include <sys/personality.h>

static void *open_plugin(int flags) {
    const char *path = getenv("ROBUSTNESS_PLUGIN");
    EXPECT(path != NULL, "ROBUSTNESS_PLUGIN to name the plugin");
    void *plugin = dlopen(path, flags);
    EXPECT(plugin != NULL, "the plugin to be loaded: %s", dlerror());
    return plugin;
}

/* Blocks cross the border in both directions. */
static void exchange_with(void *plugin) {
    char *(*makes)(size_t) = dlsym(plugin, "plugin_makes");
    char *(*copies)(const char *) = dlsym(plugin, "plugin_copies");
    void (*frees)(void *) = dlsym(plugin, "plugin_frees");
    void *(*resizes)(void *, size_t) = dlsym(plugin, "plugin_resizes");
    for (size_t bytes = 10; bytes < 3 * MIB; bytes *= 3) {
        char *theirs = makes(bytes);
        EXPECT(theirs != NULL && theirs[bytes - 1] == 'p', "a block of %zu bytes", bytes);
        theirs = realloc(theirs, bytes * 2);
        EXPECT(theirs != NULL && theirs[bytes - 1] == 'p', "realloc to keep it");
        free(theirs);
        frees(malloc(bytes));
        frees(resizes(malloc(bytes), bytes * 2));
        free(copies("text"));
    }
}

static void plugins_come_and_go(void) {
    for (int i = 0; i < 100; i++) {
        void *plugin = open_plugin(RTLD_NOW | (i % 2 ? RTLD_LOCAL : RTLD_GLOBAL));
        exchange_with(plugin);
        EXPECT(dlclose(plugin) == 0, "the plugin to go");
    }
    work_and_free(1, 5000);
}

/* The plugin has a function of this name too. */
int which(void) { return 1; }

static int which_of(void *plugin) {
    int (*function)(void) = dlsym(plugin, "plugin_which");
    return function();
}

/* It is bound to its own functions first, and yet to the heap of all. */
static void deeply_bound_plugin(void) {
    void *plugin = open_plugin(RTLD_NOW);
    EXPECT(which_of(plugin) == 1, "the program's function in a plugin that is bound as usual");
    EXPECT(dlclose(plugin) == 0, "the plugin to go");
    plugin = open_plugin(RTLD_NOW | RTLD_DEEPBIND);
    EXPECT(which_of(plugin) == 2, "its own function in a plugin that is bound to its own first");
    exchange_with(plugin);
    EXPECT(dlclose(plugin) == 0, "the plugin to go");
    EXPECT(dlopen("libnot-there.so", RTLD_NOW | RTLD_DEEPBIND) == NULL && strstr(dlerror(), "libnot-there.so"),
           "a plugin that is not there to be missed by its name");
}

static void plugin_loaded_by_threads(void) {
    pthread_t thread[4];
    start_workers(thread, 4);
    plugins_come_and_go();
    stop_workers(thread, 4);
}

/* The allocator itself comes late, beside the one that the program started with. */
static void allocator_loaded_late(void) {
    const char *path = getenv("ROBUSTNESS_LIBRARY");
    if (path == NULL)
        SKIP("the C library's own allocator cannot come late");
    void *early = malloc(100);
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        EXPECT(library != NULL, "the allocator to be loaded late: %s", dlerror());
        exchange_with(open_plugin(RTLD_NOW));
        void *(*its_malloc)(size_t) = dlsym(library, "malloc");
        void (*its_free)(void *) = dlsym(library, "free");
        void *block[100];
        for (int j = 0; j < 100; j++)
            memset(block[j] = its_malloc(j * 300 + 1), 1, j * 300 + 1);
        for (int j = 0; j < 100; j++)
            its_free(block[j]);
        dlclose(library);
        pthread_t thread[2];
        start_workers(thread, 2);
        usleep(5000);
        stop_workers(thread, 2);
    }
    free(early);
}

static void plain_work(void) {
    work_and_free(1, 20000);
    pthread_t thread[2];
    start_workers(thread, 2);
    usleep(20000);
    stop_workers(thread, 2);
}

static void no_descriptors(void) {
    if (all_arguments[2] == NULL) {
        close(0), close(1), close(2);
        char *again[] = {all_arguments[0], all_arguments[1], "inside", NULL};
        execv("/proc/self/exe", again);
        _exit(9);
    }
    plain_work();
    // Nothing may have been opened and forgotten under the numbers of the streams.
    for (int descriptor = 0; descriptor < 10; descriptor++)
        EXPECT(fcntl(descriptor, F_GETFD) == -1, "descriptor %d to be closed", descriptor);
}

static void environment_taken_away(void) {
    extern char **environ;
    environ = NULL;
    plain_work();
    clearenv();
    malloc_trim(0);
    plain_work();
}

static void start_again_with_personality(unsigned long flag) {
    if (all_arguments[2] != NULL)
        return plain_work();
    if (personality(flag) < 0)
        SKIP("personality is not allowed here");
    char *again[] = {all_arguments[0], all_arguments[1], "inside", NULL};
    execv("/proc/self/exe", again);
}

static void no_random_addresses(void) { start_again_with_personality(ADDR_NO_RANDOMIZE); }
static void old_layout_of_addresses(void) { start_again_with_personality(ADDR_COMPAT_LAYOUT); }
static void readable_is_executable(void) { start_again_with_personality(READ_IMPLIES_EXEC); }

static void empty_root(void) {
    if (getuid() != 0)
        SKIP("only root may change its root");
    const char *root = getenv("ROBUSTNESS_ROOT");
    EXPECT(root != NULL && chroot(root) == 0 && chdir("/") == 0, "a new root");
    char *again[] = {"program", "plain_work", NULL};
    execv("/program", again);
    EXPECT(0, "to start inside");
}

static const struct Case CASES[] = {
    CASE(plugins_come_and_go), CASE(deeply_bound_plugin), CASE(plugin_loaded_by_threads),
    CASE(allocator_loaded_late), CASE(plain_work), CASE(no_descriptors), CASE(environment_taken_away),
    CASE(no_random_addresses), CASE(old_layout_of_addresses), CASE(readable_is_executable), CASE(empty_root),
};

int main(int argc, char **argv) { return RUN(CASES); }
