// A program with an area called __rseq_abi, as librseq and google/tcmalloc have it, registers its threads itself, before
// and after they allocate: nobody is there before it.
// on: registered
// flags: -rdynamic
#include "others_registration.h"

_Thread_local struct others_area __rseq_abi = {.cpu_id = -1};

int main(void) {
    return others_threads();
}
