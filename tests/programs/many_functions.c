/* 165 functions for the compiler to optimise; what they compute does not matter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION(name, k)                                                              \
    static int name(const int *values, int count) {                                    \
        int sum = (k), buffer[64] = {0};                                                 \
        for (int i = 0; i < count; i++) {                                              \
            switch ((values[i] + (k)) % 7) {                                             \
            case 0: sum += values[i] * ((k) + 1); break;                                 \
            case 1: sum ^= values[i] << ((k) % 5); break;                                \
            case 2: buffer[i % 64] = sum; break;                                       \
            case 3: sum -= buffer[(i * (k)) % 64]; break;                                \
            case 4: memmove(buffer + 1, buffer, 16 * sizeof *buffer); break;           \
            default: sum = sum * 31 + (int)strlen(#name); break;                       \
            }                                                                          \
        }                                                                              \
        return sum;                                                                    \
    }

#define TEN(name, k)                                                                   \
    FUNCTION(name##0, k) FUNCTION(name##1, k + 1) FUNCTION(name##2, k + 2)             \
    FUNCTION(name##3, k + 3) FUNCTION(name##4, k + 4) FUNCTION(name##5, k + 5)         \
    FUNCTION(name##6, k + 6) FUNCTION(name##7, k + 7) FUNCTION(name##8, k + 8)         \
    FUNCTION(name##9, k + 9)                                                           \
    int name(const int *values, int count) {                                           \
        return name##0(values, count) ^ name##1(values, count) ^ name##2(values, count)\
            ^ name##3(values, count) ^ name##4(values, count) ^ name##5(values, count) \
            ^ name##6(values, count) ^ name##7(values, count) ^ name##8(values, count) \
            ^ name##9(values, count);                                                  \
    }

#define FIFTY(name, k)                                                               \
    TEN(name##a, k) TEN(name##b, k + 10) TEN(name##c, k + 20) TEN(name##d, k + 30)     \
    TEN(name##e, k + 40)

FIFTY(first, 1)
FIFTY(second, 3)
FIFTY(third, 7)
