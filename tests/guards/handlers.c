// The program's own actions for SIGSEGV beside ours: `handlers CASE early|late`. The action is set before the first
// guarded sample, or after it. Prints what happened; each case must read the same with and without the library.
#define _GNU_SOURCE
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char *closed;
static sigjmp_buf back;
static volatile int calls;

static void say(const char *text) { (void)!write(1, text, strlen(text)); }

static void with_info(int number, siginfo_t *info, void *context) {
    calls++;
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    say(number == SIGSEGV && context ? "handler " : "wrong ");
    say(info->si_code > 0 && info->si_addr == closed + 5 ? "fault " : info->si_code == SI_TKILL ? "sent " : "odd ");
    say(sigismember(&blocked, SIGUSR1) ? "masked " : "unmasked ");
    say(sigismember(&blocked, SIGSEGV) ? "blocked\n" : "open\n");
    if (calls > 1)
        _exit(4);
    // The instruction runs again, and succeeds now.
    mprotect(closed, 4096, PROT_READ | PROT_WRITE);
}

static void plain(int number) {
    say(number == SIGSEGV ? "plain\n" : "wrong\n");
    siglongjmp(back, 1);
}

static void once(int number) {
    (void)number;
    say("once\n");
}

static void use_the_heap(void) {
    for (int i = 0; i < 1000; i++)
        free(malloc(100));
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
extern void (*bsd_signal(int, void (*)(int)))(int); /* not declared any more */

/* Older functions for actions, each seen by the others. */
static void set_as_system_v(void) {
    struct sigaction now;
    if (sigset(SIGSEGV, SIG_HOLD) != SIG_DFL || sigset(SIGSEGV, SIG_HOLD) != SIG_HOLD)
        say("sigset: not the default before, or not held\n");
    if (sigset(SIGSEGV, once) != SIG_HOLD || sigset(SIGSEGV, plain) != once)
        say("sigset: not what was before\n");
    if (sigaction(SIGSEGV, NULL, &now) != 0 || now.sa_handler != plain || now.sa_flags & SA_RESTART)
        say("sigaction: not what sigset set\n");
    if (sigignore(SIGSEGV) != 0 || sigset(SIGSEGV, plain) != SIG_IGN)
        say("sigset: not ignored before\n");
    if (bsd_signal(SIGSEGV, plain) != plain || sigaction(SIGSEGV, NULL, &now) != 0 || !(now.sa_flags & SA_RESTART))
        say("bsd_signal: not ours before, or not BSD's flags\n");
    if (sigset(SIGUSR2, plain) != SIG_DFL || sigset(SIGUSR2, SIG_DFL) != plain || sigset(999, plain) != SIG_ERR)
        say("sigset: another signal\n");
}

static void set(const char *name) {
    struct sigaction action = {0}, before;
    if (strcmp(name, "info") == 0) {
        action.sa_sigaction = with_info;
        action.sa_flags = SA_SIGINFO;
        sigaddset(&action.sa_mask, SIGUSR1);
    } else if (strcmp(name, "once") == 0) {
        action.sa_handler = once;
        action.sa_flags = SA_RESETHAND;
    } else if (strcmp(name, "ignore") == 0) {
        action.sa_handler = SIG_IGN;
    } else if (strcmp(name, "plain") == 0 || strcmp(name, "guarded") == 0) {
        if (signal(SIGSEGV, plain) != SIG_DFL)
            say("signal: not the default before\n");
        if (signal(SIGSEGV, plain) != plain)
            say("signal: not ours before\n");
        return;
    } else if (strcmp(name, "sigset") == 0) {
        set_as_system_v();
        return;
    } else {
        return;
    }
    sigaction(SIGSEGV, &action, &before);
    if (before.sa_handler != SIG_DFL)
        say("sigaction: not the default before\n");
    sigaction(SIGSEGV, NULL, &before);
    if (before.sa_sigaction != action.sa_sigaction || (before.sa_flags & 0xffffff) != (action.sa_flags & 0xffffff))
        say("sigaction: not what was set\n");
}

int main(int count, char **arguments) {
    const char *name = count > 2 ? arguments[1] : "", *when = count > 2 ? arguments[2] : "";
    closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (strcmp(when, "early") == 0)
        set(name);
    use_the_heap();
    if (strcmp(when, "late") == 0)
        set(name);
    use_the_heap();
    if (strcmp(name, "ignore") == 0) {
        raise(SIGSEGV);
        say("ignored\n");
    }
    if (strcmp(name, "sent") == 0)
        raise(SIGSEGV);
    if (strcmp(name, "vfork") == 0) {
        set("info");
        if (vfork() == 0) {
            signal(SIGSEGV, SIG_DFL);
            _exit(0);
        }
        wait(NULL);
    }
    if (strcmp(name, "forked") == 0) {
        set("info");
        if (fork() == 0) {
            signal(SIGSEGV, SIG_DFL);
            closed[5] = 1;
            _exit(0);
        }
        int status;
        wait(&status);
        say(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? "child died of it\n" : "child lived\n");
    }
    if (strcmp(name, "underscore") == 0) {
        set("info");
        if (_Fork() == 0) {
            struct sigaction inherited;
            sigaction(SIGSEGV, NULL, &inherited);
            say(inherited.sa_sigaction == with_info ? "the program's own\n" : "somebody else's\n");
            signal(SIGSEGV, SIG_DFL);
            closed[5] = 1;
            _exit(0);
        }
        int status;
        wait(&status);
        say(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? "child died of it\n" : "child lived\n");
    }
    if (sigsetjmp(back, 1) == 0) {
        if (strcmp(name, "guarded") == 0) {
            char *block = malloc(100);
            free(block);
            block[50] = 1;
        }
        closed[5] = 1;
    }
    say("went on\n");
}
