// A program that has registered its main thread before the library was loaded goes on to register all of them, whatever
// it calls its areas.
// on: registered
#include "others_registration.h"

static _Thread_local struct others_area hidden = {.cpu_id = -1};

static void before_all_libraries(void) {
    if (others_register(&hidden)) _exit(9);
}
__attribute__((section(".preinit_array"), used)) static void (*first)(void) = before_all_libraries;

int main(void) {
    return others_threads();
}
