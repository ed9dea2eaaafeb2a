// An exception goes through libstdc++, whose throwing and catching have probes.
#include <cstdio>
#include <stdexcept>
#include <string>

int main() {
    try {
        throw std::runtime_error(std::string(100, '7'));
    } catch (const std::exception &error) {
        std::printf("87 %c 1\n", error.what()[99]);
    }
    return 0;
}
