/* For programs that look at the library's own thread. */
#ifndef JANITOR_H
#define JANITOR_H

#include "check.h"
#include <dirent.h>

/* Whether a thread has begun to end: who joins it goes on before the kernel has taken it off its list. */
__attribute__((unused)) static int is_ending(const char *number) {
    enum { PF_EXITING = 4 };
    char path[300], line[600] = "";
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", number);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 1;
    char *end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return end == NULL || sscanf(end, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1 || (flags & PF_EXITING) != 0;
}

/* The thread's number; 0 where there is none. */
__attribute__((unused)) static pid_t janitor(void) {
    pid_t found = 0;
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;
    while (threads != NULL && (entry = readdir(threads)) != NULL) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof name, file) != NULL && strcmp(name, "vcm-janitor\n") == 0 && !is_ending(entry->d_name))
            found = atoi(entry->d_name);
        fclose(file);
    }
    if (threads != NULL)
        closedir(threads);
    return found;
}

/* Waits for it: a thread has its name some time after it was made. */
__attribute__((unused)) static pid_t wait_for_janitor(void) {
    for (int tries = 0; tries < 1000; tries++) {
        pid_t found = janitor();
        if (found != 0)
            return found;
        usleep(10 * 1000);
    }
    return 0;
}

/* Sets an option of the running library; 0 where that was done. */
__attribute__((unused)) static int set_option(const char *name, const char *value) {
    int (*set)(const char *, const char *) =
        (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "vcm_option_set");
    return set == NULL ? -1 : set(name, value);
}

#endif
