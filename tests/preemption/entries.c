// Calls each of the functions that have a fast path of their own, so often, between two signals to the tracer.
#include <signal.h>
#include <stdlib.h>

// By their mangled names: C++ would call only some of them.
void *_Znwm(size_t), *_Znam(size_t);
void _ZdlPv(void *), _ZdaPv(void *), _ZdlPvm(void *, size_t), _ZdaPvm(void *, size_t);

enum { CALLS = 20, BYTES = 100 };

static void call_all(void)
{
    for (int i = 0; i < CALLS; i++) {
        free(malloc(BYTES));
        _ZdlPv(_Znwm(BYTES));
        _ZdaPv(_Znam(BYTES));
        _ZdlPvm(_Znwm(BYTES), BYTES);
        _ZdaPvm(_Znam(BYTES), BYTES);
    }
}

int main(void)
{
    call_all();
    raise(SIGUSR1);
    call_all();
    return 0;
}
