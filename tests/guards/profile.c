// Holds known amounts of memory by different functions, then writes the profile: `profile FILE [churn]`, with blocks that
// come and go between. Prints where each function is and how many bytes it holds. In C: no unwinder comes with it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// There where the program is linked with the archive.
extern int vcm_profile_start(size_t) __attribute__((weak));
extern int vcm_profile_write(const char *) __attribute__((weak));

#define HOLD(SIZE)                                                                                                      \
    __attribute__((noinline)) static void hold_##SIZE(size_t bytes, int churn) {                                        \
        for (size_t held = 0; held < bytes; held += SIZE) {                                                             \
            void *kept = malloc(SIZE), *dropped = churn ? malloc(SIZE) : NULL;                                          \
            asm volatile("" ::"r"(kept), "r"(dropped) : "memory");                                                      \
            free(dropped);                                                                                              \
        }                                                                                                               \
        printf("%p %zu\n", (void *)hold_##SIZE, bytes / SIZE * SIZE);                                                   \
    }

HOLD(100)
HOLD(5000)
HOLD(400000)

int main(int count, char **arguments) {
    // The start of the code behind the others.
    printf("%p 0\n", (void *)main);
    int (*start)(size_t) = vcm_profile_start;
    int (*write)(const char *) = vcm_profile_write;
    if (start == NULL || write == NULL) {
        start = (int (*)(size_t))dlsym(RTLD_DEFAULT, "vcm_profile_start");
        write = (int (*)(const char *))dlsym(RTLD_DEFAULT, "vcm_profile_write");
    }
    if (count < 2 || start == NULL || write == NULL || start(32768) != 0)
        return 1;
    int churn = count > 2;
    hold_100(40 << 20, churn);
    hold_5000(40 << 20, churn);
    hold_400000(40 << 20, churn);
    return write(arguments[1]);
}
