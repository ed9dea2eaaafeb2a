// Fills and frees again and again and asks for a release after each time, all within some seconds: the memory asked
// for goes back every time, also where the thread that asks is the one that freed, and beside busy neighbours.
#include "expect.h"
#include <gperftools/malloc_extension.h>
#include <thread>
#include <unistd.h>
#include <vector>

static const std::size_t MIB = 1 << 20;

static std::size_t resident() {
    std::size_t all = 0, pages = 0;
    std::FILE *file = std::fopen("/proc/self/statm", "r");
    EXPECT(std::fscanf(file, "%zu %zu", &all, &pages) == 2, "the kernel tells");
    std::fclose(file);
    return pages * 4096;
}

static void fill_and_free(std::size_t bytes, std::size_t size) {
    std::vector<char *> blocks;
    for (std::size_t filled = 0; filled < bytes; filled += size) {
        blocks.push_back(static_cast<char *>(std::malloc(size)));
        std::memset(blocks.back(), 1, size);
    }
    for (char *block : blocks) {
        std::free(block);
    }
}

int main() {
    const std::size_t before = resident();
    for (int round = 0; round < 8; round++) {
        const std::size_t size = round % 2 ? 100000 : 3000000;
        std::vector<std::thread> threads;
        for (int number = 0; number < round / 2 % 2 * 4; number++) {
            threads.emplace_back(fill_and_free, 24 * MIB, size);
        }
        fill_and_free(96 * MIB, size);
        for (std::thread &thread : threads) {
            thread.join();
        }
        if (round < 4) {
            MallocExtension::instance()->ReleaseFreeMemory();
        } else {
            MallocExtension::instance()->ReleaseToSystem(1024 * MIB);
        }
        const std::size_t after = resident();
        EXPECT(after <= before + (is_ours() ? 20 : 40) * MIB, "%zu, round %d: %zu", before, round, after);
        usleep(300000);
    }
}
