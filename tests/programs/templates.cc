// Standard containers and expressions for the compiler to instantiate; their results do not matter.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Level {
    std::map<std::string, std::vector<std::array<int, N>>> table;
    std::variant<int, std::string, std::shared_ptr<Level<N - 1>>> below;
    std::function<std::string(const std::tuple<int, std::string, double> &)> show;
    int count() const {
        int sum = N;
        for (const auto &[name, rows] : table)
            for (const auto &row : rows)
                sum += std::accumulate(row.begin(), row.end(), 0);
        return sum + std::visit([](const auto &value) { return int(sizeof value); }, below);
    }
};
template <> struct Level<0> {
    int count() const { return 0; }
};

template <int N> int total(const Level<N> &level) {
    if constexpr (N == 0)
        return 0;
    else
        return level.count() + total(Level<N - 1>{});
}

int compute(const std::string &text) {
    std::regex expression("([a-z]+)-([0-9]+)");
    std::smatch match;
    std::unordered_map<std::string, std::set<int>> found;
    if (std::regex_search(text, match, expression))
        found[match[1]].insert(std::stoi(match[2]));
    std::ostringstream stream;
    for (auto &[name, values] : found)
        stream << name << values.size();
    return total(Level<12>{}) + int(stream.str().size());
}
