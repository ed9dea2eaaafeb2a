// A library that has its own operator new, which asks malloc, and binds its own names first; and a program that deletes what the
// library made, and lets it delete what the program made. As rustc's libLLVM and its linker do.
#include <cstddef>
#include <cstdlib>

struct Thing {
    char bytes[100];
};

#ifdef LIBRARY
void *operator new(size_t bytes) { return malloc(bytes); }

Thing *make_thing() { return new Thing; }
void take_thing(Thing *thing) { free(thing); }
#else
Thing *make_thing();
void take_thing(Thing *thing);

int main(int argc, char **) {
    for (int i = 0; i < 1000; i++) {
        delete make_thing();
        take_thing(new Thing);
    }
    // Faults that do not depend on whose operator new it was are judged as ever.
    if (argc > 1)
        delete[] new Thing;
    return 0;
}
#endif
