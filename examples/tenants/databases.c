/* SQLite's databases in memory, each in a heap of a tenant: SQLite knows nothing of it, malloc serves from the heap while the
   thread is in a scope. A database goes by sqlite3_close, which frees block by block, or with its heap, at once.

       databases close|heap DATABASES ROWS

   Build: cc -O2 databases.c -lsqlite3 -lvcmalloc (or run it on the library). Prints what a tenant holds, and how long its end takes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vcmalloc.h>

struct tenant {
    vcm_heap heap;
    sqlite3 *database;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

static double rss_mib(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%*d %ld", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return pages / 256.0;
}

static void must(int is_done, const char *what) {
    if (!is_done) {
        fprintf(stderr, "databases: cannot %s\n", what);
        exit(1);
    }
}

static void run(sqlite3 *database, const char *text) {
    must(sqlite3_exec(database, text, NULL, NULL, NULL) == SQLITE_OK, text);
}

static void fill(struct tenant *tenant, int rows) {
    vcm_heap before = vcm_heap_push(tenant->heap);
    must(sqlite3_open(":memory:", &tenant->database) == SQLITE_OK, "open a database");
    run(tenant->database, "create table row (id integer primary key, name text, value text); begin");
    sqlite3_stmt *insert;
    must(sqlite3_prepare_v2(tenant->database, "insert into row values (?, ?, ?)", -1, &insert, NULL) == SQLITE_OK, "prepare");
    for (int row = 0; row < rows; row++) {
        char name[40], value[120];
        snprintf(name, sizeof name, "name %d", row * 7919 % rows);
        snprintf(value, sizeof value, "%0*d", 40 + row % 70, row);
        sqlite3_bind_int(insert, 1, row);
        sqlite3_bind_text(insert, 2, name, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(insert, 3, value, -1, SQLITE_TRANSIENT);
        must(sqlite3_step(insert) == SQLITE_DONE, "insert");
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    run(tenant->database, "commit; create index by_name on row (name)");
    vcm_heap_pop(before);
}

static void *sleeps(void *argument) {
    for (;;)
        pause();
    return argument;
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    int by_heap = !strcmp(words[1], "heap"), databases = atoi(words[2]), rows = atoi(words[3]);
    /* A daemon has threads; what SQLite keeps for all databases is the process's own. */
    pthread_t thread;
    pthread_create(&thread, NULL, sleeps, NULL);
    must(sqlite3_initialize() == SQLITE_OK, "start SQLite");
    struct tenant *tenant = calloc(databases, sizeof *tenant);
    double before = rss_mib(), start = now();
    for (int index = 0; index < databases; index++) {
        char name[40];
        snprintf(name, sizeof name, "database %d", index);
        tenant[index].heap = vcm_heap_new(name, NULL);
        must(tenant[index].heap != VCM_HEAP_NONE, "make a heap");
        fill(&tenant[index], rows);
    }
    struct vcm_heap_stats stats = {.size = sizeof stats};
    vcm_heap_stats(tenant[0].heap, &stats);
    printf("filled in %.0f ms, %.1f MiB; the first database: %.2f MiB in %llu blocks\n", now() - start, rss_mib() - before,
           stats.live / 1048576.0, (unsigned long long)stats.live_blocks);
    double full = rss_mib(), worst = 0;
    start = now();
    for (int index = 0; index < databases; index++) {
        double one = now();
        if (!by_heap)
            must(sqlite3_close(tenant[index].database) == SQLITE_OK, "close a database");
        must(vcm_heap_destroy(tenant[index].heap, VCM_HEAP_FREE) == 0, "end a heap");
        one = now() - one;
        worst = one > worst ? one : worst;
    }
    double took = now() - start;
    while (rss_mib() - before > (full - before) / 10 && now() - start < 5000)
        usleep(500);
    printf("%s: %.2f ms for all, %.3f ms for one at most; memory gone after %.0f ms, left %.1f MiB\n",
           by_heap ? "ended with their heaps" : "closed one by one", took, worst, now() - start, rss_mib() - before);
    return 0;
}
