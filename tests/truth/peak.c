// Two peaks, the second one higher: what was in use at it is neither what was before nor what is left.
#include "truth.h"

// So many blocks of a function, of which the last ones are to be freed at `until`.
#define HOLDS(name, bytes)                                                                                              \
    SITE void *name(long blocks) {                                                                                      \
        void *list = NULL;                                                                                              \
        for (long block = 0; block < blocks; block++)                                                                   \
            list = pushed(list, malloc(bytes));                                                                         \
        return list;                                                                                                    \
    }

HOLDS(always, 900)
HOLDS(at_the_first, 2000)
HOLDS(at_both, 300)
HOLDS(at_the_second, 5000)
HOLDS(afterwards, 700)

static void at_peak(const char *function, size_t bytes, long blocks) { count(function, bytes, blocks, blocks); }

int main(void) {
    always(20000);
    void *both = at_both(30000);
    free_all(at_the_first(10000));
    void *second = at_the_second(6000);
    // 18 + 9 + 30 MB: the highest. The blocks that are told are those held here.
    at_peak("always", 900, 20000);
    at_peak("at_both", 300, 30000);
    at_peak("at_the_second", 5000, 6000);
    free_all(both);
    free_all(second);
    afterwards(15000);
    return tell();
}
