/*
 * Preloaded into glusterd and its command line tool. Sees to four things that they have no option for:
 *
 * - bricks get the environment in LAB_BRICK_ENVIRONMENT (VAR=value, divided by line ends), so that only they run
 *   on the allocator; other children get none of it;
 * - both ask for the version of geo-replication, a Python program, with every command: they get an answer at once;
 * - no self-heal daemon: it would hold up every start of a volume, and there is nothing to heal;
 * - glusterd sleeps whole seconds between its attempts to attach a brick: LAB_SLEEP_MILLISECONDS instead of each.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WORDS 600

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                           char *const[], char *const[]);

void synctask_sleep(int seconds) {
    void (*sleep_for)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "synctask_usleep");
    const char *milliseconds = getenv("LAB_SLEEP_MILLISECONDS");
    int each = milliseconds ? atoi(milliseconds) : 1000;
    sleep_for(seconds * each * 1000);
}

static int begins_with(const char *text, const char *begin) {
    return strncmp(text, begin, strlen(begin)) == 0;
}

static int is_called(const char *program, const char *wanted) {
    const char *name = strrchr(program, '/');
    return strcmp(name ? name + 1 : program, wanted) == 0;
}

static int is_self_heal(char *const arguments[]) {
    for (int i = 0; arguments[i]; i++)
        if (strcmp(arguments[i], "glustershd") == 0)
            return 1;
    return 0;
}

int posix_spawnp(pid_t *pid, const char *program, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    static char *nothing[] = {"true", NULL};
    static char *version[] = {"echo", "gsyncd", NULL};
    spawn_function *spawn = (spawn_function *)dlsym(RTLD_NEXT, "posix_spawnp");
    const char *for_bricks = getenv("LAB_BRICK_ENVIRONMENT");
    char *words[MOST_WORDS + 1];
    int count = 0;
    for (int i = 0; environment && environment[i] && count < MOST_WORDS; i++)
        if (!begins_with(environment[i], "LD_PRELOAD=") && !begins_with(environment[i], "LAB_"))
            words[count++] = environment[i];
    words[count] = NULL;
    if (is_self_heal(arguments))
        return spawn(pid, "/bin/true", actions, attributes, nothing, words);
    if (is_called(program, "gsyncd"))
        return spawn(pid, "/bin/echo", actions, attributes, version, words);
    if (!for_bricks || !is_called(program, "glusterfsd"))
        return spawn(pid, program, actions, attributes, arguments, words);
    char *copy = strdup(for_bricks);
    for (char *word = strtok(copy, "\n"); word && count < MOST_WORDS; word = strtok(NULL, "\n"))
        words[count++] = word;
    words[count] = NULL;
    int result = spawn(pid, program, actions, attributes, arguments, words);
    free(copy);
    return result;
}
