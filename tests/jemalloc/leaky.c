// Keeps 50 MB at its end, and what it wrote in the stream's buffer.
#include "expect.h"

void *leaked[500];

int main(void) {
    for (int index = 0; index < 500; index++) {
        leaked[index] = malloc(100000);
    }
    printf("the program's last line\n");
    return 0;
}
