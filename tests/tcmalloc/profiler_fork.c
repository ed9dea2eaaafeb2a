// A thread starts and stops the heap profiler without end; children ask, start and stop it themselves.
#include <gperftools/heap-profiler.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *prefix;

static void *start_and_stop(void *nothing) {
    for (;;) {
        HeapProfilerStart(prefix);
        HeapProfilerStop();
    }
    return nothing;
}

int main(int count, char **arguments) {
    prefix = count > 1 ? arguments[1] : "/tmp/nowhere";
    // Each start says so.
    if (!freopen("/dev/null", "w", stderr)) {
        return 1;
    }
    pthread_t thread;
    pthread_create(&thread, NULL, start_and_stop, NULL);
    for (int number = 0; number < 200; number++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(100);
            HeapProfilerStop();
            if (IsHeapProfilerRunning()) {
                _exit(2);
            }
            HeapProfilerStart(prefix);
            HeapProfilerDump("in a child");
            _exit(IsHeapProfilerRunning() ? 0 : 3);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0) {
            printf("child %d: signal %d, code %d\n", number, WTERMSIG(status), WEXITSTATUS(status));
            fflush(stdout);
            _exit(1);
        }
    }
    _exit(0);
}
