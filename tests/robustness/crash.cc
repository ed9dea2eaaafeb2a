// A daemon whose handler of SIGABRT builds maps, formats text and opens files before it ends: the way Ceph's does.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <malloc.h>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static void last_words(int) {
    std::map<std::string, std::vector<std::string>> report;
    for (int i = 0; i < 2000; i++) {
        std::ostringstream text;
        text << "event " << i << " of the last seconds, with its arguments";
        report["thread " + std::to_string(i % 37)].push_back(text.str());
    }
    std::ofstream file("/dev/null");
    for (auto &[name, lines] : report)
        for (auto &line : lines)
            file << name << line << '\n';
    FILE *stream = fopen("/proc/self/maps", "r");
    char *line = nullptr;
    size_t length = 0, lines = 0;
    while (stream != nullptr && getline(&line, &length, stream) > 0)
        lines++;
    free(line);
    if (stream != nullptr)
        fclose(stream);
    _exit(lines > 0 ? 0 : 5);
}

static void expect_to_be_stopped() {
    // A library that does not notice the crime ends here, so that the handler is tried all the same.
    abort();
}

static void stopped_at_a_bad_pointer() {
    free((char *)malloc(64) + 1);
    malloc_trim(0);
    expect_to_be_stopped();
}

static void stopped_at_a_double_free() {
    std::vector<void *> block(20000);
    for (void *&one : block)
        one = malloc(64);
    for (void *one : block)
        free(one);
    for (int i = 0; i < 3; i++)
        free(block[i * 5000]);
    malloc_trim(0);
    for (void *&one : block)
        one = malloc(64);
    for (void *one : block)
        free(one);
    expect_to_be_stopped();
}

static void stopped_while_threads_work() {
    for (int i = 0; i < 8; i++)
        std::thread([] {
            for (size_t round = 0;; round++) {
                std::vector<std::string> texts;
                for (size_t j = 0; j < 100; j++)
                    texts.push_back(std::string((j * 7919 + round) % 9000, 't'));
            }
        }).detach();
    usleep(3000);
    stopped_at_a_bad_pointer();
}

static void stopped_after_an_overflow() {
    char *block[100];
    for (char *&one : block)
        one = (char *)malloc(40);
    for (char *one : block)
        memset(one, 'x', 80);
    for (char *one : block)
        free(one);
    malloc_trim(0);
    expect_to_be_stopped();
}

static std::atomic<bool> may_fork, has_forked;

/* Ends well only if another thread of the process can still fork. */
static void has_another_thread_fork(int) {
    may_fork = true;
    for (int i = 0; i < 1000 && !has_forked; i++)
        usleep(10000);
    _exit(has_forked ? 0 : 6);
}

/* Over its limit the heap is looked through, and that finds the block that was freed twice. */
static void stopped_over_the_limit() {
    std::thread([] {
        while (!may_fork)
            usleep(1000);
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        has_forked = child > 0;
    }).detach();
    std::vector<void *> block(4000);
    for (int round = 0; round < 5; round++) {
        for (void *&one : block)
            one = malloc(64);
        for (void *one : block)
            free(one);
    }
    for (int i = 0; i < 20; i++)
        block[i] = malloc(64);
    for (int i = 0; i < 10; i++)
        free(block[i]);
    free(block[3]);
    for (int i = 0; i < 100; i++)
        memset(malloc(1 << 20), 1, 1 << 20);
    expect_to_be_stopped();
}

static void with_a_handler(void (*crime)(), void (*handler)(int) = last_words) {
    struct sigaction action = {};
    action.sa_handler = handler;
    sigaction(SIGABRT, &action, nullptr);
    sigaction(SIGSEGV, &action, nullptr);
    crime();
}

int main(int argc, char **argv) {
    std::string name = argc > 1 ? argv[1] : "";
    alarm(100);
    if (name == "handler_after_a_bad_pointer")
        with_a_handler(stopped_at_a_bad_pointer);
    if (name == "handler_after_a_double_free")
        with_a_handler(stopped_at_a_double_free);
    if (name == "handler_while_threads_work")
        with_a_handler(stopped_while_threads_work);
    if (name == "handler_after_an_overflow")
        with_a_handler(stopped_after_an_overflow);
    if (name == "handler_while_the_heap_is_relieved")
        with_a_handler(stopped_over_the_limit, has_another_thread_fork);
    for (const char *crime : {"handler_after_a_bad_pointer", "handler_after_a_double_free",
                              "handler_while_threads_work", "handler_after_an_overflow",
                              "handler_while_the_heap_is_relieved"})
        dprintf(2, "  %s\n", crime);
    return 2;
}
