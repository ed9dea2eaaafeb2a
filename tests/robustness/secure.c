// A privileged program that is linked with the library: its starter's variables and files must not be obeyed.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int work(void) {
    if (getauxval(AT_SECURE) == 0) {
        dprintf(2, "this file system ignores the setuid bit\n");
        return 77;
    }
    for (int i = 1; i < 1000; i++)
        free(calloc(i, 10));
    return 0;
}

/* As root: makes a setuid copy of this program and starts it as nobody. */
int main(int argc, char **argv) {
    if (argc > 1)
        return work();
    const char *copy = getenv("ROBUSTNESS_COPY");
    if (getuid() != 0 || copy == NULL) {
        dprintf(2, "only root may make a setuid program\n");
        return 77;
    }
    int output[2];
    if (chmod(copy, 04755) != 0 || pipe(output) != 0)
        return 1;
    // The file that 'vcm run' passes to learn that the library works: only an unprivileged program writes there.
    int proof = memfd_create("proof", MFD_ALLOW_SEALING);
    char number[12];
    if (proof < 0 || ftruncate(proof, 4096) != 0 || fcntl(proof, F_ADD_SEALS, F_SEAL_GROW) != 0)
        return 1;
    snprintf(number, sizeof number, "%d", proof);
    pid_t child = fork();
    if (child == 0) {
        setenv("VCM_RUN_PROOF", number, 1);
        dup2(output[1], 2);
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(77);
        execl(copy, copy, "inside", NULL);
        _exit(1);
    }
    close(output[1]);
    char said[1000];
    ssize_t length = read(output[0], said, sizeof said);
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return 77;
    if (length > 0 || status != 0) {
        dprintf(2, "expected no word and success, not status %x and: %.*s\n", status, (int)length, said);
        return 1;
    }
    char written = 0;
    if (pread(proof, &written, 1, 0) != 1 || written != 0) {
        dprintf(2, "expected no proof from a privileged program\n");
        return 1;
    }
    (void)argv;
    return 0;
}
