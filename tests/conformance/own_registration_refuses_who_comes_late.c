// Who registers a thread that is ours already is told so by the kernel, and allocation goes on. With front=locked no
// thread is ours.
// on: registered
#include "others_registration.h"
#include <stdlib.h>

int main(int count, char **arguments) {
    static _Thread_local struct others_area area = {.cpu_id = -1};
    free(malloc(100));
    if (count > 1) return others_register(&area) != 0;
    errno = 0;
    CHECK(others_register(&area) == -1 && errno == EINVAL);
    for (int i = 0; i < 1000; i++) free(malloc(i));
    setenv("VCM_FRONT", "locked", 1);
    execl("/proc/self/exe", arguments[0], "again", NULL);
    return 1;
}
