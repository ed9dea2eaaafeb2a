// A plugin: allocates when it is loaded, hands blocks over, frees what it is given, and leaves nothing behind.
#include <stdlib.h>
#include <string.h>

static char *own;

__attribute__((constructor)) static void arrive(void) { own = strdup("a plugin's own text"); }
__attribute__((destructor)) static void leave(void) { free(own); }

/* The program has a function of this name too. */
int which(void) { return 2; }
int plugin_which(void) { return which(); }

char *plugin_makes(size_t bytes) {
    char *block = malloc(bytes);
    return block ? memset(block, 'p', bytes) : NULL;
}

char *plugin_copies(const char *text) { return strdup(text); }
void plugin_frees(void *block) { free(block); }
void *plugin_resizes(void *block, size_t bytes) { return realloc(block, bytes); }
