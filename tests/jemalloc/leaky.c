// Keeps 100 MB at its end, and what it wrote in the stream's buffer.
#include "expect.h"

void *leaked[1000];

int main(void) {
    for (int index = 0; index < 1000; index++) {
        leaked[index] = malloc(100000);
    }
    printf("the program's last line\n");
    return 0;
}
