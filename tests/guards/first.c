/* What the argument says with the first large block of the process. */
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments) {
    const char *crime = count > 1 ? arguments[1] : "";
    const size_t bytes = 256 << 10;
    volatile char *block = malloc(bytes);
    block[0] = block[bytes - 1] = 1;
    if (strcmp(crime, "behind") == 0)
        block[bytes] = 1;
    if (strcmp(crime, "before") == 0)
        block[-1] = 1;
    free((void *)block);
    if (strcmp(crime, "freed") == 0)
        return block[bytes / 2];
    return 0;
}
