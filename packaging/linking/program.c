/* Says which library it is linked with: its version, and the file whose malloc it calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <vcmalloc.h>

int main(void) {
    Dl_info own;
    void *volatile block = malloc(100);
    if (!block || !dladdr((void *)malloc, &own)) return 1;
    free(block);
    printf("%s %s\n", vcm_version(), own.dli_fname);
    return 0;
}
