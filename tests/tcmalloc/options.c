// Prints the options in effect.
#include <gperftools/malloc_extension_c.h>
#include <stdio.h>

size_t vcm_options_text(char *buffer, size_t length) __attribute__((weak));

int main(void) {
    static char text[8192];
    if (vcm_options_text) vcm_options_text(text, sizeof text);
    puts(text);
    return 0;
}
