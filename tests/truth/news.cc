// The operators new, and containers over them.
#include "truth.h"
#include <list>
#include <memory>
#include <new>
#include <string>
#include <vector>

struct Node {
    void *words[6];
};

struct alignas(128) Line {
    char bytes[256];
};

SITE void one_by_one() {
    std::vector<Node *> gone;
    for (int round = 0; round < 150000; round++) {
        Node *node = new Node;
        use(node);
        if (round % 3 == 0)
            delete node;
    }
    took(__func__, sizeof(Node), 150000);
    gave(__func__, sizeof(Node), 50000);
}

SITE void as_arrays() {
    for (int round = 0; round < 3000; round++) {
        char *array = new char[2500];
        use(array);
        if (round % 2 == 0)
            delete[] array;
    }
    took(__func__, 2500, 3000);
    gave(__func__, 2500, 1500);
}

SITE void over_aligned() {
    for (int round = 0; round < 30000; round++) {
        Line *line = new Line;
        use(line);
        if (round % 2 == 0)
            delete line;
    }
    took(__func__, sizeof(Line), 30000);
    gave(__func__, sizeof(Line), 15000);
}

SITE void without_exceptions() {
    for (int round = 0; round < 400; round++)
        use(new (std::nothrow) char[20000]);
    took(__func__, 20000, 400);
}

// Nodes of two pointers and a value.
SITE void as_a_list() {
    auto *list = new std::list<Node>;
    for (int round = 0; round < 100000; round++)
        list->emplace_back();
    for (int round = 0; round < 50000; round++)
        list->pop_front();
    took(__func__, sizeof(Node) + 16, 100000);
    gave(__func__, sizeof(Node) + 16, 50000);
}

SITE void as_strings() {
    auto *strings = new std::vector<std::string>;
    strings->reserve(8000);
    for (int round = 0; round < 8000; round++)
        strings->emplace_back(999, 'x');
    took(__func__, 8000 * sizeof(std::string), 1);
    took(__func__, 1000, 8000);
    for (int round = 0; round < 2000; round++)
        std::string().swap((*strings)[round]);
    gave(__func__, 1000, 2000);
}

int main() {
    one_by_one();
    as_arrays();
    over_aligned();
    without_exceptions();
    as_a_list();
    as_strings();
    return tell();
}
