// malloc_stats writes its report to stderr, and nothing to stdout.
// on: glibc preload locked hardened static
#include "check.h"
#include <fcntl.h>

static off_t length_of(int descriptor) {
    return lseek(descriptor, 0, SEEK_END);
}

int main(void) {
    FILE *errors = tmpfile(), *output = tmpfile();
    EXPECT(errors != NULL && output != NULL, "temporary files");
    int saved = dup(2);
    dup2(fileno(errors), 2);
    dup2(fileno(output), 1);
    malloc_stats();
    fflush(NULL);
    off_t said = length_of(2), printed = length_of(1);
    dup2(saved, 2);
    EXPECT(said > 20, "a report on stderr");
    EXPECT(printed == 0, "nothing on stdout");
    return 0;
}
