/* Filters of system calls, by the numbers that they let pass; all others end the process. */
#ifndef FILTER_H
#define FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

struct filter {
    struct sock_filter lines[128];
    struct sock_fprog program;
};

__attribute__((unused)) static void begin_filter(struct filter *filter) {
    filter->program = (struct sock_fprog){1, filter->lines};
    filter->lines[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
}

__attribute__((unused)) static void answer(struct filter *filter, const int *numbers, size_t count, unsigned action) {
    for (size_t i = 0; i < count; i++) {
        struct sock_filter *line = filter->lines + filter->program.len;
        line[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[i], 0, 1);
        line[1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
        filter->program.len += 2;
    }
}

__attribute__((unused)) static void end_filter(struct filter *filter, unsigned action) {
    filter->lines[filter->program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
}

#define ANSWER(filter, action, ...)                                                          \
    do {                                                                                     \
        static const int numbers_[] = {__VA_ARGS__};                                         \
        answer(filter, numbers_, sizeof numbers_ / sizeof *numbers_, action);                \
    } while (0)

#endif
