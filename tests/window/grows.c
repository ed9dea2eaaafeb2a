/* So many MiB, and after SIGUSR1 as many again. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t grow;

static void on_signal(int signal)
{
    (void)signal;
    grow = 1;
}

static void fill(long megabytes)
{
    for (long at = 0; at < megabytes * 1024; at++)
        memset(malloc(1000), 1, 1000);
}

int main(int count, char **arguments)
{
    long megabytes = count > 1 ? atol(arguments[1]) : 16;
    signal(SIGUSR1, on_signal);
    fill(megabytes);
    if (write(1, "ready\n", 6) != 6)
        return 1;
    while (!grow)
        usleep(1000);
    fill(megabytes);
    for (;;)
        pause();
}
