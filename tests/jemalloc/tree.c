// The tree of names: types, sizes, errors and places, by name and by place.
#include "expect.h"

struct name {
    const char *name;
    size_t bytes;
    enum { READ, VOID, BOTH, SWITCH } kind;
};

// The names that public programs use, with the bytes of their values.
static const struct name NAMES[] = {
    {"version", 8, READ}, {"epoch", 8, BOTH}, {"background_thread", 1, BOTH}, {"max_background_threads", 8, BOTH},
    {"thread.arena", 4, BOTH}, {"thread.allocated", 8, READ}, {"thread.allocatedp", 8, READ},
    {"thread.deallocated", 8, READ}, {"thread.deallocatedp", 8, READ}, {"thread.tcache.enabled", 1, BOTH},
    {"thread.tcache.flush", 0, VOID}, {"thread.peak.read", 8, READ}, {"thread.peak.reset", 0, VOID},
    {"thread.prof.active", 1, SWITCH}, {"thread.idle", 0, VOID},
    {"config.cache_oblivious", 1, READ}, {"config.debug", 1, READ}, {"config.fill", 1, READ},
    {"config.lazy_lock", 1, READ}, {"config.malloc_conf", 8, READ}, {"config.prof", 1, READ},
    {"config.prof_libgcc", 1, READ}, {"config.prof_libunwind", 1, READ}, {"config.stats", 1, READ},
    {"config.utrace", 1, READ}, {"config.xmalloc", 1, READ},
    {"opt.abort", 1, READ}, {"opt.abort_conf", 1, READ}, {"opt.confirm_conf", 1, READ}, {"opt.metadata_thp", 8, READ},
    {"opt.retain", 1, READ}, {"opt.dss", 8, READ}, {"opt.narenas", 4, READ}, {"opt.percpu_arena", 8, READ},
    {"opt.oversize_threshold", 8, READ}, {"opt.background_thread", 1, READ}, {"opt.max_background_threads", 8, READ},
    {"opt.dirty_decay_ms", 8, READ}, {"opt.muzzy_decay_ms", 8, READ}, {"opt.stats_print", 1, READ},
    {"opt.stats_print_opts", 8, READ}, {"opt.stats_interval", 8, READ}, {"opt.junk", 8, READ}, {"opt.zero", 1, READ},
    {"opt.tcache", 1, READ}, {"opt.thp", 8, READ}, {"opt.prof", 1, READ}, {"opt.prof_prefix", 8, READ},
    {"opt.prof_active", 1, READ}, {"opt.prof_thread_active_init", 1, READ}, {"opt.lg_prof_sample", 8, READ},
    {"opt.lg_prof_interval", 8, READ}, {"opt.prof_gdump", 1, READ}, {"opt.prof_final", 1, READ},
    {"opt.prof_leak", 1, READ}, {"opt.prof_accum", 1, READ}, {"opt.zero_realloc", 8, READ},
    {"arena.0.initialized", 1, READ}, {"arena.0.decay", 0, VOID}, {"arena.0.purge", 0, VOID},
    {"arena.0.dirty_decay_ms", 8, BOTH}, {"arena.0.muzzy_decay_ms", 8, BOTH}, {"arena.0.extent_hooks", 8, BOTH},
    {"arena.0.dss", 8, BOTH}, {"arena.4096.purge", 0, VOID},
    {"arenas.narenas", 4, READ}, {"arenas.dirty_decay_ms", 8, BOTH}, {"arenas.muzzy_decay_ms", 8, BOTH},
    {"arenas.quantum", 8, READ}, {"arenas.page", 8, READ}, {"arenas.tcache_max", 8, READ}, {"arenas.nbins", 4, READ},
    {"arenas.nhbins", 4, READ}, {"arenas.bin.0.size", 8, READ}, {"arenas.bin.0.nregs", 4, READ},
    {"arenas.bin.0.slab_size", 8, READ}, {"arenas.bin.0.nshards", 4, READ}, {"arenas.nlextents", 4, READ},
    {"arenas.lextent.0.size", 8, READ}, {"prof.thread_active_init", 1, SWITCH}, {"prof.active", 1, SWITCH},
    {"prof.gdump", 1, SWITCH}, {"prof.interval", 8, READ}, {"prof.lg_sample", 8, READ},
    {"stats.allocated", 8, READ}, {"stats.active", 8, READ}, {"stats.metadata", 8, READ},
    {"stats.metadata_thp", 8, READ}, {"stats.resident", 8, READ}, {"stats.mapped", 8, READ},
    {"stats.retained", 8, READ}, {"stats.zero_reallocs", 8, READ}, {"stats.background_thread.num_threads", 8, READ},
    {"stats.background_thread.num_runs", 8, READ}, {"stats.background_thread.run_interval", 8, READ},
    {"stats.arenas.0.nthreads", 4, READ}, {"stats.arenas.0.uptime", 8, READ}, {"stats.arenas.0.dss", 8, READ},
    {"stats.arenas.0.dirty_decay_ms", 8, READ}, {"stats.arenas.0.pactive", 8, READ},
    {"stats.arenas.0.pdirty", 8, READ}, {"stats.arenas.0.pmuzzy", 8, READ}, {"stats.arenas.0.mapped", 8, READ},
    {"stats.arenas.0.retained", 8, READ}, {"stats.arenas.0.resident", 8, READ}, {"stats.arenas.0.base", 8, READ},
    {"stats.arenas.0.internal", 8, READ}, {"stats.arenas.0.tcache_bytes", 8, READ},
    {"stats.arenas.0.small.allocated", 8, READ}, {"stats.arenas.0.large.allocated", 8, READ},
    {"stats.arenas.0.bins.0.curregs", 8, READ}, {"stats.arenas.0.bins.0.curslabs", 8, READ},
    {"stats.arenas.0.lextents.0.curlextents", 8, READ}, {"stats.arenas.4096.small.allocated", 8, READ},
};

static const size_t COUNT = sizeof NAMES / sizeof *NAMES;

static void by_name(const struct name *of) {
    char value[16], other[16];
    size_t length = of->bytes;
    if (of->kind == VOID) {
        EXPECT(mallctl(of->name, NULL, NULL, NULL, 0) == 0, "%s", of->name);
        EXPECT(mallctl(of->name, value, &length, NULL, 0) == EPERM, "%s is not read", of->name);
        EXPECT(mallctl(of->name, NULL, NULL, value, 8) == EPERM, "%s is not written", of->name);
        return;
    }
    memset(value, 0x5a, sizeof value);
    EXPECT(mallctl(of->name, value, &length, NULL, 0) == 0 && length == of->bytes, "%s: %zu", of->name, length);
    EXPECT(value[of->bytes] == 0x5a, "%s: no byte more is written", of->name);
    // What fits is copied, and the error says that it is another length.
    memset(other, 0x5a, sizeof other);
    length = of->bytes + 1;
    EXPECT(mallctl(of->name, other, &length, NULL, 0) == EINVAL && length == of->bytes, "%s: %zu", of->name, length);
    length = of->bytes - 1;
    EXPECT(mallctl(of->name, other, &length, NULL, 0) == EINVAL && length == of->bytes - 1, "%s: %zu", of->name, length);
    // Neither read nor written is no error.
    EXPECT(mallctl(of->name, NULL, NULL, NULL, 0) == 0, "%s", of->name);
    if (of->kind == READ) {
        EXPECT(mallctl(of->name, NULL, NULL, value, of->bytes) == EPERM, "%s is not written", of->name);
        EXPECT(mallctl(of->name, NULL, NULL, NULL, 1) == EPERM, "%s is not written", of->name);
    } else if (of->kind == BOTH) {
        EXPECT(mallctl(of->name, NULL, NULL, value, of->bytes + 1) == EINVAL, "%s: a longer value", of->name);
    }
}

static void by_place(const struct name *of) {
    size_t mib[8], places = 8, again[8], fewer = 1, length = of->bytes;
    EXPECT(mallctlnametomib(of->name, mib, &places) == 0, "%s", of->name);
    size_t dots = 1;
    for (const char *at = of->name; *at; at++) {
        dots += *at == '.';
    }
    EXPECT(places == dots, "%s: %zu", of->name, places);
    again[0] = again[1] = 77;
    EXPECT(mallctlnametomib(of->name, again, &fewer) == 0 && fewer == 1, "%s: %zu", of->name, fewer);
    EXPECT(again[0] == mib[0] && again[1] == 77, "%s: a part of the place", of->name);
    char value[16], same[16];
    if (of->kind == VOID) {
        EXPECT(mallctlbymib(mib, places, NULL, NULL, NULL, 0) == 0, "%s", of->name);
        return;
    }
    EXPECT(mallctlbymib(mib, places, value, &length, NULL, 0) == 0 && length == of->bytes, "%s", of->name);
    length = of->bytes;
    mallctl(of->name, same, &length, NULL, 0);
    // Strings and switches do not change from one call to the next; counts may.
    EXPECT(of->bytes > 4 || strncmp(of->name, "stats", 5) == 0 || memcmp(value, same, of->bytes) == 0, "%s", of->name);
    EXPECT(places == 1 || mallctlbymib(mib, places - 1, value, &length, NULL, 0) == ENOENT, "%s: a part", of->name);
}

static void strangers(void) {
    char value[8];
    size_t mib[8], places;
    static const char *const unknown[] = {"", ".", "versio", "versions", "version.", "version.x", ".version", "thread",
        "thread.", "thread..arena", "stats.arenas", "stats.arenas.0", "arena", "arena.x.purge", "arenas.bin.100000.size",
        "arenas.lextent.100000.size", "arena.99999.purge", "stats.arenas.99999.pactive", "stats.arenas.0.bins.5000.curregs",
        "opt", "opt.nothing", "prof.", "a.b.c.d.e.f.g.h.i.j.k.l.m.n"};
    for (size_t index = 0; index < sizeof unknown / sizeof *unknown; index++) {
        size_t length = 8;
        EXPECT(mallctl(unknown[index], value, &length, NULL, 0) == ENOENT, "'%s'", unknown[index]);
        EXPECT(length == 8, "'%s': the length stays", unknown[index]);
    }
    places = 8;
    EXPECT(mallctlnametomib("nothing", mib, &places) == ENOENT, "an unknown name has no place");
    places = 8;
    EXPECT(mallctlnametomib("arenas.bin", mib, &places) == 0 && places == 2, "a part of a name has one: %zu", places);
}

static void numbers(void) {
    size_t mib[4], places = 4, length = 8, bytes, before = 0;
    EXPECT(mallctlnametomib("arenas.bin.0.size", mib, &places) == 0 && places == 4, "%zu", places);
    size_t first = mib[0];
    mib[0] = 9999;
    EXPECT(mallctlbymib(mib, places, &bytes, &length, NULL, 0) == ENOENT, "its last part is that of another name");
    mib[0] = first;
    unsigned bins = GET(unsigned, "arenas.nbins");
    for (unsigned bin = 0; bin < bins; bin++) {
        mib[2] = bin;
        EXPECT(mallctlbymib(mib, places, &bytes, &length, NULL, 0) == 0, "bin %u", bin);
        EXPECT(bytes > before && nallocx(bytes, 0) == bytes && nallocx(before + 1, 0) == bytes, "bin %u: %zu", bin, bytes);
        before = bytes;
    }
    mib[2] = bins + 1;
    EXPECT(mallctlbymib(mib, places, &bytes, &length, NULL, 0) == ENOENT, "no bin more");
    EXPECT(mallctlnametomib("arenas.lextent.0.size", mib, &places) == 0, "lengths");
    unsigned lengths = GET(unsigned, "arenas.nlextents");
    for (unsigned number = 0; number < lengths; number++) {
        mib[2] = number;
        EXPECT(mallctlbymib(mib, places, &bytes, &length, NULL, 0) == 0, "length %u", number);
        EXPECT(bytes > before && nallocx(bytes, 0) == bytes, "length %u: %zu", number, bytes);
        before = bytes;
    }
    EXPECT(before >= (size_t)7 << 60 && mallocx(before, 0) == NULL, "the greatest: %zu", before);
}

int main(void) {
    for (size_t index = 0; index < COUNT; index++) {
        by_name(&NAMES[index]);
        by_place(&NAMES[index]);
    }
    strangers();
    numbers();
    int major, minor, bugfix;
    EXPECT(sscanf(GET(const char *, "version"), "%d.%d.%d-", &major, &minor, &bugfix) == 3, "a version");
    EXPECT(major == 5 && minor == 3, "%d.%d", major, minor);
    // Refused without prof:true, as jemalloc does.
    bool on = true, off = false;
    EXPECT(mallctl("prof.active", NULL, NULL, &on, 1) == ENOENT, "no profile to switch on");
    EXPECT(mallctl("prof.active", NULL, NULL, &off, 1) == 0, "it is off");
    EXPECT(DO("prof.dump") == ENOENT && DO("prof.reset") == ENOENT, "no profile to write");
    return 0;
}
