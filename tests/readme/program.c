// The program of README's commands, under their names. With `--port` it is a server: it prints that it is ready and runs until
// SIGTERM. Otherwise it allocates, names its allocator, and ends after a moment in which `vcm compare` can inspect it.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *idle(void *unused) {
    (void)unused;
    sigset_t none;
    sigemptyset(&none);
    sigsuspend(&none);
    return NULL;
}

int main(int count, char **arguments) {
    int is_server = count > 1 && strcmp(arguments[1], "--port") == 0;
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &end, NULL);
    for (int round = 0; round < 20000; round++) {
        char *block = malloc(16 + round % 4000);
        if (!block) return 1;
        block[0] = 1;
        free(block);
    }
    static char *kept[4000];
    for (int block = 0; block < 4000; block++) {
        kept[block] = malloc(4096);
        if (!kept[block]) return 1;
        kept[block][0] = 1;
    }
    printf("on %s\n", dlsym(RTLD_DEFAULT, "vcm_version") ? "vcmalloc" : "another allocator");
    if (!is_server) return usleep(200000);
    // With kernel.yama.ptrace_scope 1 only a parent may read a process.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pthread_t thread;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    if (pthread_create(&thread, NULL, idle, NULL)) return 1;
    puts("ready");
    fflush(stdout);
    int signal;
    return sigwait(&end, &signal);
}
