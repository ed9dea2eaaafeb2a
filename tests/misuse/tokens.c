// A block of one type freed, and its address asked for as one of another type: with tokens for types, and without. Prints how
// often the address came back.
// The functions that a compiler calls instead of malloc (LLVM's AllocToken): found by name.
#include "../conformance/check.h"
#include <dlfcn.h>

enum { OBJECTS = 1000, SPRAYS = 200, EACH = 2000, BYTES = 120 };

static void *(*with_token)(size_t, uint64_t);
static void *(*new_with_token)(size_t, uint64_t);
static void (*delete)(void *);

static void *take(uint64_t token) {
    return with_token ? with_token(BYTES, token) : malloc(BYTES);
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "tokens")) {
        *(void **)&with_token = dlsym(RTLD_DEFAULT, "__alloc_token_malloc");
        *(void **)&new_with_token = dlsym(RTLD_DEFAULT, "__alloc_token__Znwm");
        *(void **)&delete = dlsym(RTLD_DEFAULT, "_ZdlPv");
        EXPECT(with_token && new_with_token && delete, "the functions for tokens");
        void *made = new_with_token(BYTES, 3);
        EXPECT(made, "a block of new");
        delete(made);
    }
    const uint64_t pointers = UINT64_MAX / 3 * 2, data = UINT64_MAX / 3;
    static void *objects[OBJECTS];
    for (int index = 0; index < OBJECTS; index++)
        objects[index] = take(pointers);
    /* One in two is freed, so that their spans stay. */
    for (int index = 0; index < OBJECTS; index += 2)
        free(objects[index]);
    int back = 0;
    static void *sprayed[EACH];
    for (int spray = 0; spray < SPRAYS; spray++) {
        for (int index = 0; index < EACH; index++) {
            sprayed[index] = take(data);
            for (int of = 0; spray == 0 && of < OBJECTS; of += 2)
                back += sprayed[index] == objects[of];
        }
        for (int index = 0; index < EACH; index++)
            free(sprayed[index]);
    }
    printf("%d\n", back);
    return 0;
}
