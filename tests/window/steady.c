/* Something in every tier; tells the library's own statistics as one line of JSON, and stands still. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t vcm_stats_json(char *buffer, size_t length) __attribute__((weak));

#define BLOCKS 30000
static void *blocks[BLOCKS];
static char json[1 << 16];

#ifdef BECOMES
static void become(int signal)
{
    (void)signal;
    execl(BECOMES, BECOMES, "600", (char *)NULL);
}
#endif

int main(void)
{
    const size_t sizes[] = {24, 100, 700, 5000, 30000, 300000};
    for (int at = 0; at < BLOCKS; at++) {
        /* Few of the long ones. */
        size_t bytes = sizes[at % 4 == 3 && at % 100 == 99 ? 4 + at / 100 % 2 : at % 4];
        blocks[at] = malloc(bytes);
        memset(blocks[at], 1, bytes);
    }
    for (int at = 0; at < BLOCKS; at += 3)
        free(blocks[at]);
    if (!vcm_stats_json)
        return 1;
    size_t length = vcm_stats_json(json, sizeof json - 1);
    json[length++] = '\n';
#ifdef BECOMES
    signal(SIGUSR1, become);
#endif
    if (write(1, json, length) != (ssize_t)length)
        return 1;
#ifdef BECOMES
    for (;;)
        pause();
#endif
    sleep(600);
}
