// malloc_usable_size is 0 for null, never less than what was asked for, and all of it may be written.
// on: glibc preload locked hardened static
#include "check.h"

enum { AT_ONCE = 8 };

int main(void) {
    EXPECT(malloc_usable_size(NULL) == 0, "0 for null");
    for (size_t bytes = 0; bytes <= 8 * MIB; bytes += bytes < 3000 ? 1 : bytes / 13) {
        unsigned char *block[AT_ONCE];
        size_t usable[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            block[i] = malloc(bytes);
            usable[i] = malloc_usable_size(block[i]);
            EXPECT(usable[i] >= bytes, "at least %zu usable bytes, not %zu", bytes, usable[i]);
            memset(block[i], i + 1, usable[i]);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            EXPECT(malloc_usable_size(block[i]) == usable[i], "the usable size of a block to stay");
            for (size_t at = 0; at < usable[i]; at += at + 64 < usable[i] ? 64 : 1)
                EXPECT(block[i][at] == i + 1,
                       "all %zu usable bytes of a block of %zu its own", usable[i], bytes);
        }
        for (int i = 0; i < AT_ONCE; i++)
            free(block[i]);
    }
    return 0;
}
