// A C++ program linked with -static starts, also where its first allocation is a sample, and gets its exceptions.
// on: static
// flags: -static
// check.h looks symbols up by name at run time, which such a program cannot; so it stays out here.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <unistd.h>
#include <vector>

static int failures;

static void expect(bool condition, const char *what) {
    if (!condition) {
        std::fprintf(stderr, "expected %s\n", what);
        failures++;
    }
}

static volatile std::size_t too_much = static_cast<std::size_t>(1) << 62;

template <typename Allocate> static bool throws_bad_alloc(Allocate allocate) {
    try {
        allocate();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

int main(int, char **arguments) {
    if (!std::getenv("VCM_SAMPLE_INTERVAL")) {
        setenv("VCM_PROFILE", "on", 1);
        setenv("VCM_SAMPLE_INTERVAL", "1", 1);
        execv("/proc/self/exe", arguments);
        return 2;
    }
    std::vector<int *> numbers;
    for (int i = 0; i < 1000; i++)
        numbers.push_back(new int(i));
    for (int *number : numbers)
        delete number;
    expect(throws_bad_alloc([] { return operator new(too_much); }), "bad_alloc from new");
    expect(throws_bad_alloc([] { return operator new[](too_much); }), "bad_alloc from new[]");
    expect(operator new(too_much, std::nothrow) == nullptr, "null from new(nothrow)");
    std::set_new_handler([] { throw 42; });
    try {
        expect(operator new(too_much) == nullptr, "no memory");
        expect(false, "the handler to throw");
    } catch (int thrown) {
        expect(thrown == 42, "what the handler threw");
    }
    return failures != 0;
}
