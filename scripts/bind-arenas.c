// Preloaded into named by scripts/jemalloc-daemons: each of its memory contexts gets an arena. libisc has the function for that, and
// Debian's BIND 9.18 does not call it.
void isc__mem_create_arena(void **context, const char *file, unsigned line);

void isc__mem_create(void **context, const char *file, unsigned line) { isc__mem_create_arena(context, file, line); }
