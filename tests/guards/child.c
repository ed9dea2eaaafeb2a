/* A child of vfork, in its parent's memory, has the first guarded block; then the parent writes behind one. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int (*set)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "vcm_option_set");
    const size_t bytes = 256 << 10;
    int status = 0;
    pid_t child = vfork();
    if (child == 0) {
        int refused = set("guarded_rate", "1000000000");
        volatile char *block = malloc(bytes);
        block[0] = 1;
        _exit(refused);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        return 3;
    volatile char *block = malloc(bytes);
    block[bytes] = 1;
    free((void *)block);
    return 4;
}
