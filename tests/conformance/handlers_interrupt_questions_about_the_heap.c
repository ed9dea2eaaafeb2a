// A signal handler that allocates interrupts calls that ask the heap something: statistics, the profile, what malloc_info
// and mallinfo say. Nobody waits for a lock of his own thread.
// on: preload locked hardened static
#include "check.h"
#include <signal.h>
#include <sys/time.h>

extern int vcm_profile_start(size_t) __attribute__((weak));
extern int vcm_profile_write(const char *) __attribute__((weak));
extern int vcm_profile_stop(void) __attribute__((weak));
extern int vcm_stats_get(const char *, uint64_t *) __attribute__((weak));
extern int vcm_option_set(const char *, const char *) __attribute__((weak));

static volatile sig_atomic_t handled;

static void handler(int signal) {
    (void)signal;
    int error = errno;
    void *large = malloc(300000 + handled % 7 * 1000), *small = malloc(1000 + handled % 3000);
    free(large);
    free(small);
    handled++;
    errno = error;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, NULL);
    FILE *nowhere = fopen("/dev/null", "w");
    for (int call = 0; handled < 3000; call++) {
        uint64_t value;
        if (call % 10 == 0)
            vcm_profile_start(100);
        vcm_profile_write("/dev/null");
        EXPECT(vcm_stats_get("live", &value) == 0, "a figure");
        if (call % 10 == 5)
            vcm_option_set("sample_interval", "1K");
        if (call % 100 == 99)
            malloc_info(0, nowhere);
        (void)mallinfo2();
        free(malloc(200000));
    }
    return 0;
}
