// Holds known amounts of memory by different functions, then writes the profile: `profile FILE [churn]`, with blocks that
// come and go between. Prints where each function is and how many bytes it holds.
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

template <size_t SIZE> __attribute__((noinline)) static void hold(size_t bytes, bool churn) {
    for (size_t held = 0; held < bytes; held += SIZE) {
        void *kept = malloc(SIZE), *dropped = churn ? malloc(SIZE) : nullptr;
        asm volatile("" ::"r"(kept), "r"(dropped) : "memory");
        free(dropped);
    }
    printf("%p %zu\n", (void *)hold<SIZE>, bytes / SIZE * SIZE);
}

int main(int count, char **arguments) {
    // Where the code behind the others begins.
    printf("%p 0\n", (void *)main);
    auto start = (int (*)(size_t))dlsym(RTLD_DEFAULT, "vcm_profile_start");
    auto write = (int (*)(const char *))dlsym(RTLD_DEFAULT, "vcm_profile_write");
    if (count < 2 || start == nullptr || write == nullptr || start(32768) != 0)
        return 1;
    bool churn = count > 2;
    hold<100>(40 << 20, churn);
    hold<5000>(40 << 20, churn);
    hold<400000>(40 << 20, churn);
    return write(arguments[1]);
}
