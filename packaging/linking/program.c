/* Says which library it is linked with: its version, and the file whose malloc it calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <vcmalloc.h>

int main(int count, char **arguments) {
    (void)count;
    Dl_info own;
    void *volatile block = malloc(100);
    uint64_t live = 0;
    if (!block || vcm_stats_get("live", &live) != 0 || live < 100) return 1;
    /* A program that is linked with -static cannot ask: there it is its own, or the figure would be 0. */
    if (!dladdr((void *)malloc, &own)) own.dli_fname = arguments[0];
    free(block);
    printf("%s %s\n", vcm_version(), own.dli_fname);
    return 0;
}
