// A server of four threads that take requests and answer them, with caches that come and go, and a leak of a part of what
// they handle. Says when it is ready, and ends when its standard input does.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

static std::atomic<bool> ends{false};

struct Request {
    std::string key;
    std::vector<char> body;
};

// The leak: a history that nobody reads.
static thread_local std::vector<char *> history;

__attribute__((noinline)) static void remember_request(const Request &request) {
    char *copy = new char[request.body.size()];
    memcpy(copy, request.body.data(), request.body.size());
    history.push_back(copy);
}

__attribute__((noinline)) static Request *parse_request(unsigned &random) {
    random = random * 1664525 + 1013904223;
    Request *request = new Request;
    request->key = "key-of-the-request-" + std::to_string(random % 5000);
    request->body.resize(200 + random / 7 % 4000);
    return request;
}

__attribute__((noinline)) static void answer_request(std::unordered_map<std::string, std::string> &cache, Request *request) {
    cache[request->key].assign(request->body.data(), request->body.size() / 4);
    if (cache.size() > 200)
        cache.erase(cache.begin());
}

static void serve(unsigned random) {
    std::unordered_map<std::string, std::string> cache;
    for (unsigned long count = 0; !ends; count++) {
        Request *request = parse_request(random);
        answer_request(cache, request);
        if (count % 4 == 0)
            remember_request(*request);
        delete request;
        if (count % 16 == 0)
            usleep(1000);
    }
}

int main() {
    std::vector<std::thread> threads;
    for (unsigned index = 0; index < 4; index++)
        threads.emplace_back(serve, index * 77 + 1);
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    ends = true;
    for (std::thread &thread : threads)
        thread.join();
}
