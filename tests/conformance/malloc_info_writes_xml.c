// malloc_info writes well-formed XML in glibc's form to the given file, and refuses options with EINVAL.
// on: glibc preload locked hardened static
#include "check.h"
#include <ctype.h>

/* Balanced elements and quoted attributes: enough to find broken XML, and no parser needed. */
static const char *problem_in(const char *text) {
    char open[32][32];
    int depth = 0, elements = 0;
    while (*text != 0) {
        if (isspace((unsigned char)*text)) {
            text++;
            continue;
        }
        if (*text != '<')
            return "text between elements";
        const char *end = strchr(text, '>');
        if (end == NULL)
            return "an element that does not end";
        int quotes = 0;
        for (const char *at = text; at < end; at++)
            quotes += *at == '"';
        if (quotes % 2 != 0)
            return "an odd number of quotes";
        char name[32];
        if (text[1] == '/') {
            if (sscanf(text + 2, "%31[a-zA-Z0-9_-]", name) != 1 || depth == 0 ||
                strcmp(open[--depth], name) != 0)
                return "an end that fits no start";
        } else if (text[1] != '?' && text[1] != '!') {
            if (sscanf(text + 1, "%31[a-zA-Z0-9_-]", name) != 1)
                return "an element without a name";
            elements++;
            if (end[-1] != '/') {
                if (depth == 32)
                    return "too many levels";
                strcpy(open[depth++], name);
            }
        }
        text = end + 1;
    }
    return depth != 0 ? "an element that is not ended" : elements == 0 ? "no element" : NULL;
}

int main(void) {
    enum { COUNT = 3000, BYTES = 5000 };
    static void *block[COUNT];
    for (int i = 0; i < COUNT; i++)
        block[i] = malloc(BYTES);
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    EXPECT(malloc_info(0, file) == 0, "0 for success");
    fclose(file);
    EXPECT(length > 0 && strstr(text,
           "<malloc version=\"1\">") != NULL, "the element <malloc version=\"1\"> in: %s", text);
    const char *problem = problem_in(text);
    EXPECT(problem == NULL, "well-formed XML, not %s in: %s", problem, text);
    /* The last one is the sum over all heaps. */
    const char *system = NULL;
    for (const char *at = text; (at = strstr(at, "<system type=\"current\" size=\"")) != NULL; at++)
        system = at;
    EXPECT(system != NULL, "the element <system type=\"current\" size=\"...\"/>");
    size_t bytes = strtoul(strstr(system, "size=\"") + 6, NULL, 10);
    struct mallinfo2 info = mallinfo2();
    EXPECT(bytes >= (size_t)COUNT * BYTES,
           "%d bytes from the system at least, not %zu", COUNT * BYTES, bytes);
    size_t arena = info.arena + info.hblkhd;
    EXPECT(bytes <= arena + arena / 10 && bytes + arena / 10 >= arena,
           "mallinfo2's %zu, not %zu", arena, bytes);

    text = NULL;
    file = open_memstream(&text, &length);
    EXPECT(malloc_info(1, file) == EINVAL, "EINVAL for options");
    fclose(file);
    EXPECT(length == 0, "nothing written when refused");
    for (int i = 0; i < COUNT; i++)
        free(block[i]);
    return 0;
}
