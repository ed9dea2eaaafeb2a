/* What rustc calls in code for the Thread Sanitizer and gcc's runtime does not have: it intercepts the plain names. */
#include <string.h>

void *__tsan_memcpy(void *to, const void *from, size_t bytes) { return memcpy(to, from, bytes); }
void *__tsan_memmove(void *to, const void *from, size_t bytes) { return memmove(to, from, bytes); }
void *__tsan_memset(void *to, int value, size_t bytes) { return memset(to, value, bytes); }
