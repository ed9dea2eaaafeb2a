// Threads whose filters of system calls the kernel refuses at the same time leave the process its memory, and one that it takes meanwhile
// holds.
// on: preload locked hardened
// flags: -pthread
#include "filter.h"
#include "growth.h"
#include <pthread.h>

enum { INSTALLERS = 3, ROUNDS = 5, UNKNOWN_FLAG = 0x4000 };

static struct filter none, some;
static pthread_barrier_t together;
static int is_done;

static void *be_refused(void *nothing) {
    pthread_barrier_wait(&together);
    while (!__atomic_load_n(&is_done, __ATOMIC_RELAXED))
        EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, UNKNOWN_FLAG, &none.program) == -1, "a refusal");
    return nothing;
}

static void *be_filtered(void *nothing) {
    pthread_barrier_wait(&together);
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &some.program) == 0, "a filter");
    for (int i = 0; i < ROUNDS; i++) {
        (void)grows(); /* Until the kernel has answered, the filters hold. */
        malloc_trim(0);
    }
    __atomic_store_n(&is_done, 1, __ATOMIC_RELAXED);
    return nothing;
}

int main(void) {
    begin_filter(&none);
    ANSWER(&none, SECCOMP_RET_ALLOW, SYS_read, SYS_write, SYS_exit_group);
    end_filter(&none, SECCOMP_RET_KILL_PROCESS);
    begin_filter(&some);
    ANSWER(&some, SECCOMP_RET_KILL_PROCESS, SYS_openat, SYS_mincore, SYS_mremap, SYS_sysinfo);
    end_filter(&some, SECCOMP_RET_ALLOW);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    pthread_barrier_init(&together, NULL, INSTALLERS + 1);
    pthread_t threads[INSTALLERS + 1];
    for (int i = 0; i <= INSTALLERS; i++)
        EXPECT(pthread_create(threads + i, NULL, i ? be_refused : be_filtered, NULL) == 0, "a thread");
    for (int i = 0; i <= INSTALLERS; i++)
        pthread_join(threads[i], NULL);
    EXPECT(grows(), "memory after all the refusals");
    return 0;
}
