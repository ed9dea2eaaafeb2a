// Without memory operator new runs the new-handler until memory is there or the handler throws; without a
// handler it throws bad_alloc; the nothrow forms give null after the handler.
// on: glibc preload locked hardened static
#include "check.h"
#include <new>
#include <functional>

static volatile size_t too_much = (size_t)1 << 60;
static int handler_runs;

struct GivenUp : std::bad_alloc {};

static void throwing_handler() {
    if (++handler_runs == 3)
        throw GivenUp();
}

static void uninstalling_handler() {
    handler_runs++;
    std::set_new_handler(nullptr);
}

static void expect_thrown(const char *form, const std::function<void *()> &allocate) {
    bool thrown = false;
    std::set_new_handler(nullptr);
    try {
        allocate();
    } catch (const std::bad_alloc &error) {
        thrown = true;
        EXPECT(error.what() != nullptr, "a message");
    }
    EXPECT(thrown, "%s to throw bad_alloc without a handler", form);

    thrown = false;
    handler_runs = 0;
    std::set_new_handler(throwing_handler);
    try {
        allocate();
    } catch (const GivenUp &) {
        thrown = true;
    }
    EXPECT(thrown && handler_runs == 3,
           "%s to run the handler until it throws, not %d times", form, handler_runs);

    thrown = false;
    handler_runs = 0;
    std::set_new_handler(uninstalling_handler);
    try {
        allocate();
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    EXPECT(thrown && handler_runs == 1, "%s to throw once the handler has removed itself", form);
}

static void expect_null(const char *form, const std::function<void *()> &allocate) {
    std::set_new_handler(nullptr);
    EXPECT(allocate() == nullptr, "%s to give null without a handler", form);
    handler_runs = 0;
    std::set_new_handler(uninstalling_handler);
    EXPECT(allocate() == nullptr && handler_runs == 1, "%s to give null after the handler", form);
    handler_runs = 0;
    std::set_new_handler(throwing_handler);
    EXPECT(allocate() == nullptr && handler_runs == 3, "%s to give null when the handler throws", form);
}

#define THROWS(call) expect_thrown(#call, [] { return call; })
#define GIVES_NULL(call) expect_null(#call, [] { return call; })

int main() {
    THROWS(::operator new(too_much));
    THROWS(::operator new[](too_much));
    THROWS(::operator new(too_much, std::align_val_t{4096}));
    THROWS(::operator new[](too_much, std::align_val_t{4096}));
    THROWS(::operator new(SIZE_MAX));
    GIVES_NULL(::operator new(too_much, std::nothrow));
    GIVES_NULL(::operator new[](too_much, std::nothrow));
    GIVES_NULL(::operator new(too_much, std::align_val_t{4096}, std::nothrow));
    GIVES_NULL(::operator new[](too_much, std::align_val_t{4096}, std::nothrow));
    std::set_new_handler(nullptr);
    delete new int(5);
    return 0;
}
