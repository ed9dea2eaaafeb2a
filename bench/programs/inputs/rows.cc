#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
template<int N> struct Row { std::map<std::string, std::vector<Row<N - 1>>> rows; };
template<> struct Row<0> { int value; };
template<int N> int use() { std::map<std::string, Row<N>> all; std::set<std::vector<int>> some; std::unordered_map<std::string, int> more;
  some.insert({N}); all["x"]; more["y"] = N; return std::all_of(some.begin(), some.end(), [](auto &v) { return v.size(); }) + more.size(); }
int main() { std::regex r("a+b"); std::function<int()> f[] = {use<1>, use<2>, use<3>, use<4>, use<5>, use<6>};
  int n = 0; for (auto &g : f) n += g(); std::cout << n << std::regex_match("aab", r) << "\n"; }