// A new-handler that gives memory up makes the retry succeed, for the plain, array, aligned and nothrow
// forms.
// on: glibc preload locked static
#include "check.h"
#include <new>
#include <sys/resource.h>

static void *reserve;
static int handler_runs;

static void give_up_the_reserve() {
    handler_runs++;
    EXPECT(reserve != nullptr, "one reserve to be enough");
    free(reserve);
    malloc_trim(0);
    reserve = nullptr;
}

/* Started again under a limit, because a limit binds an allocator from its start. */
static void enter_limit(char **arguments) {
    struct rlimit limit = {512 * MIB, 512 * MIB};
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0, "a limit of 512 MiB");
    char inside[] = "inside";
    char *again[] = {arguments[0], inside, nullptr};
    execv("/proc/self/exe", again);
    EXPECT(false, "to start again under the limit");
}

template <typename Allocate> static void expect_retry(const char *form, Allocate allocate) {
    const size_t bytes = 200 * MIB;
    reserve = malloc(bytes);
    EXPECT(reserve != nullptr, "a reserve of 200 MiB under 512 MiB");
    void *filler[64];
    int fillers = 0;
    while (fillers < 64 && (filler[fillers] = malloc(16 * MIB)) != nullptr)
        fillers++;
    EXPECT(fillers < 64, "the limit to bind");
    handler_runs = 0;
    std::set_new_handler(give_up_the_reserve);
    void *block = allocate(150 * MIB);
    EXPECT(block != nullptr && handler_runs == 1,
           "%s to succeed after one run of the handler, not %d", form, handler_runs);
    memset(block, 1, 1000);
    free(block);
    while (fillers > 0)
        free(filler[--fillers]);
}

int main(int count, char **arguments) {
    if (count < 2)
        enter_limit(arguments);
    expect_retry("new", [](size_t bytes) { return ::operator new(bytes); });
    expect_retry("new[]", [](size_t bytes) { return ::operator new[](bytes); });
    expect_retry("aligned new", [](size_t bytes) { return ::operator new(bytes, std::align_val_t{4096}); });
    expect_retry("nothrow new", [](size_t bytes) { return ::operator new(bytes, std::nothrow); });
    return 0;
}
