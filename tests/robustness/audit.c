// An auditing library: the dynamic linker loads it first, into a namespace with a C library of its own.
#include <link.h>
#include <stdlib.h>

unsigned la_version(unsigned version) {
    free(malloc(1000));
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie) {
    (void)map, (void)lmid, (void)cookie;
    free(malloc(100));
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
