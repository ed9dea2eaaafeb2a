// A C++ program whose malloc is its own: google/tcmalloc is linked into it. Threads allocate, check, free, and change their CPU.
#include <sched.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

extern "C" bool MallocExtension_Internal_GetPerCpuCachesActive();

static bool work(unsigned seed) {
    std::vector<std::vector<unsigned char>> blocks(300);
    bool is_whole = true;
    for (int i = 0; i < 300000; i++) {
        seed = seed * 1664525 + 1013904223;
        auto &block = blocks[(seed >> 8) % blocks.size()];
        for (auto byte : block) is_whole = is_whole && byte == (unsigned char)block.size();
        size_t bytes = (seed >> 16) % 600;
        block = std::vector<unsigned char>(bytes, (unsigned char)bytes);
        if (i % 5000 == 0) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET((seed >> 12) % sysconf(_SC_NPROCESSORS_ONLN), &set);
            sched_setaffinity(0, sizeof set, &set);
        }
    }
    return is_whole;
}

int main() {
    bool is_whole[8];
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) threads.emplace_back([i, &is_whole] { is_whole[i] = work(i + 1); });
    for (auto &thread : threads) thread.join();
    for (bool one : is_whole)
        if (!one) return 1;
    puts(MallocExtension_Internal_GetPerCpuCachesActive() ? "caches of CPUs" : "caches of threads");
}
