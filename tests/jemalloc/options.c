// Prints the values of the given names, each as its kind says: b, u, z (size_t), s (text).
#include "expect.h"

#ifdef WITH_CONF
const char *malloc_conf = "dirty_decay_ms:1111,muzzy_decay_ms:2222";
#endif

int main(int count, char **arguments) {
    for (int index = 1; index < count; index++) {
        const char *name = arguments[index] + 2;
        switch (arguments[index][0]) {
        case 'b': printf("%s=%d\n", name, GET(bool, "%s", name)); break;
        case 'u': printf("%s=%u\n", name, GET(unsigned, "%s", name)); break;
        case 'z': printf("%s=%zd\n", name, GET(ssize_t, "%s", name)); break;
        case 's': printf("%s=%s\n", name, GET(const char *, "%s", name)); break;
        case '-': {
            size_t value, length = 8;
            printf("%s:%d\n", name, mallctl(name, &value, &length, NULL, 0));
        }
        }
    }
    return 0;
}
