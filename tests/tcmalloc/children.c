// Starts itself as another program, and forks: with HEAPPROFILE each process leaves a profile.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    free(malloc(100));
    if (count > 1) {
        return 0;
    }
    if (fork() == 0) {
        execl("/proc/self/exe", arguments[0], "child", (char *)NULL);
        _exit(1);
    }
    wait(NULL);
    // Its end is this program's: exit, not exec.
    if (fork() == 0) {
        return 0;
    }
    wait(NULL);
    return 0;
}
