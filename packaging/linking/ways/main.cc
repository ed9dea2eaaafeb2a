#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" int rounds(int count);

static void collect()
{
    std::map<std::string, std::vector<int>> numbers;
    for (int number = 0; number < 1000; ++number)
        numbers["a name that is no short one " + std::to_string(number % 100)].push_back(number);
    for (const auto &[name, kept] : numbers)
        if (kept.size() != 10)
            throw std::runtime_error(name);
}

int main(int count, char **words)
{
    auto number = std::make_unique<int>(count > 1 ? std::stoi(words[1]) : 0);
    std::thread other(collect);
    collect();
    other.join();
    try {
        throw std::runtime_error(std::string(100, 'x'));
    } catch (const std::exception &error) {
        if (std::string(error.what()).size() != 100)
            return 1;
    }
    return *number ? rounds(*number) : 0;
}
