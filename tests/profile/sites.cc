// Holds known amounts of memory by different functions: `sites`. Blocks of a few sizes come and go between. It says how
// much each function holds, and ends when its standard input does. With a word it ends at once: `7` with this code, `-15`
// by this signal.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static void use(void *block) { asm volatile("" ::"r"(block) : "memory"); }

__attribute__((noinline)) static size_t hold_small() {
    for (int count = 0; count < 40000; count++) {
        use(malloc(512));
        void *gone = malloc(900);
        use(gone);
        free(gone);
    }
    return 40000 * 512;
}

__attribute__((noinline)) static size_t hold_large() {
    for (int count = 0; count < 30; count++)
        use(malloc(1 << 20));
    return 30 << 20;
}

struct Index {
    std::vector<std::string> words;
    __attribute__((noinline)) size_t fill() {
        words.reserve(20000);
        for (int count = 0; count < 20000; count++)
            words.emplace_back(2000, 'x');
        return 20000 * (2001 + sizeof(std::string));
    }
};

int main(int count, char **words) {
    // Held beyond the end of main.
    Index &index = *new Index;
    size_t small = 0;
    std::thread([&] { small = hold_small(); }).join();
    size_t large = hold_large(), filled = index.fill();
    printf("%zu %zu %zu\n", small, large, filled);
    fflush(stdout);
    if (count > 1) {
        int code = atoi(words[1]);
        if (code < 0)
            raise(-code);
        return code;
    }
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
}
