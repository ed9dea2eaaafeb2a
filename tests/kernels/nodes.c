/* On which node of memory do the blocks lie that a thread gets? Threads are bound to nodes, and each asks the kernel for every page of
 * the blocks that it has at the end, all written by it. Runs on any malloc.
 *   own        each thread replaces its blocks at random; as many threads as CPUs
 *   sleepers   the same with three times as many, which sleep between
 *   handoff    each gives what it makes to a thread of the next node, which frees it
 *   heap       threads of the first node fill the heap, free all and end; then those of the others fill it
 *   later      the same, with a pause of PAUSE seconds between
 *   moved      each fills, changes to the next node and replaces its blocks
 *   control    no malloc: a page that another node's thread wrote, and one of its own; fails unless the kernel says so
 * `nodes PATTERN BYTES` prints how many pages of the blocks lie on another node than the thread that has them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define MOST_NODES 16
#define MOST_THREADS 2048
#define MOST_BLOCKS 65536
#define ROUNDS 4
#define BATCH 32
#define PAUSE 4

struct worker {
    pthread_t thread;
    int node, is_filler;
    unsigned seed;
    char **blocks;
    unsigned long pages, elsewhere, unknown;
    /* Blocks that another thread hands to this one. */
    char *box[BATCH];
    pthread_mutex_t lock;
};

static struct worker workers[MOST_THREADS];
static cpu_set_t cpus_of[MOST_NODES];
static pthread_barrier_t all;
static int nodes, threads;
static size_t bytes, count;
static const char *pattern;

static void die(const char *why) {
    fprintf(stderr, "nodes: %s\n", why);
    _exit(3);
}

static int is(const char *name) { return strcmp(pattern, name) == 0; }

/* Lists such as 0-3,8-11. */
static void read_cpus(const char *list, cpu_set_t *set) {
    CPU_ZERO(set);
    while (*list >= '0' && *list <= '9') {
        char *end;
        long first = strtol(list, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long cpu = first; cpu <= last; cpu++) {
            CPU_SET(cpu, set);
        }
        list = end + (*end == ',');
    }
}

static void find_nodes(void) {
    for (nodes = 0; nodes < MOST_NODES; nodes++) {
        char path[80], list[1000] = "";
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", nodes);
        FILE *file = fopen(path, "r");
        if (!file) {
            break;
        }
        if (!fgets(list, sizeof list, file)) {
            die("a node without CPUs");
        }
        fclose(file);
        read_cpus(list, &cpus_of[nodes]);
    }
    if (nodes < 2) {
        printf("nodes: this machine has one node\n");
        exit(77);
    }
}

static void *pages_of_system(size_t length) {
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        die("no memory");
    }
    return memory;
}

static void bind_to(int node) {
    if (sched_setaffinity(0, sizeof cpus_of[0], &cpus_of[node]) != 0) {
        die("a thread cannot be bound");
    }
}

static char *make(void) {
    char *block = malloc(bytes);
    if (!block) {
        die("no block");
    }
    memset(block, 1, bytes);
    return block;
}

/* move_pages with no nodes moves nothing: it says where each page is. */
static void ask(struct worker *own, char *start, size_t length) {
    uintptr_t first = (uintptr_t)start & -(uintptr_t)PAGE;
    for (uintptr_t at = first; at < (uintptr_t)start + length; at += PAGE) {
        void *page = (void *)at;
        int node = -1;
        if (syscall(SYS_move_pages, 0, 1UL, &page, NULL, &node, 0) != 0 || node < 0) {
            own->unknown++;
        }
        own->pages++;
        own->elsewhere += node >= 0 && node != own->node;
    }
}

static void ask_for_all(struct worker *own) {
    for (size_t i = 0; i < count; i++) {
        ask(own, own->blocks[i], bytes);
    }
}

static void fill(struct worker *own) {
    for (size_t i = 0; i < count; i++) {
        own->blocks[i] = make();
    }
}

static void empty(struct worker *own) {
    for (size_t i = 0; i < count; i++) {
        free(own->blocks[i]);
    }
}

static void replace(struct worker *own, int is_sleepy) {
    for (size_t i = 0; i < ROUNDS * count; i++) {
        char **place = &own->blocks[rand_r(&own->seed) % count];
        free(*place);
        *place = make();
        if (is_sleepy && i % (count / 8 + 1) == 0) {
            usleep(1000 + rand_r(&own->seed) % 4000);
        }
    }
}

/* Half of the blocks, one after the other, into the box of the same thread of the next node, whose contents this one frees. */
static void hand_over(struct worker *own) {
    struct worker *next = &workers[(own - workers + 1) % threads];
    for (size_t i = 0; i < ROUNDS * count; i++) {
        char **place = &own->blocks[rand_r(&own->seed) % count];
        pthread_mutex_lock(&next->lock);
        char **box = &next->box[rand_r(&own->seed) % BATCH], *given = *box;
        *box = *place;
        pthread_mutex_unlock(&next->lock);
        free(given);
        pthread_mutex_lock(&own->lock);
        char **mine = &own->box[rand_r(&own->seed) % BATCH], *got = *mine;
        *mine = NULL;
        pthread_mutex_unlock(&own->lock);
        free(got);
        *place = make();
    }
}

/* Threads of the first node fill four times as much as each other will. */
static void fill_and_free(void) {
    size_t most = 4 * count;
    char **filled = pages_of_system(most * sizeof *filled);
    for (size_t i = 0; i < most; i++) {
        filled[i] = make();
    }
    pthread_barrier_wait(&all);
    for (size_t i = 0; i < most; i++) {
        free(filled[i]);
    }
    munmap(filled, most * sizeof *filled);
}

static void *work(void *argument) {
    struct worker *own = argument;
    if (own->is_filler) {
        fill_and_free();
        return NULL;
    }
    fill(own);
    if (is("moved")) {
        pthread_barrier_wait(&all);
        own->node = (own->node + 1) % nodes;
        bind_to(own->node);
    }
    if (is("handoff")) {
        hand_over(own);
    } else if (!is("heap") && !is("later")) {
        replace(own, is("sleepers"));
    }
    pthread_barrier_wait(&all);
    ask_for_all(own);
    pthread_barrier_wait(&all);
    empty(own);
    return NULL;
}

static void start(struct worker *own, int node, void *(*run)(void *)) {
    pthread_attr_t how;
    own->node = node;
    own->seed = own - workers + 1;
    own->blocks = pages_of_system(count * sizeof *own->blocks);
    pthread_mutex_init(&own->lock, NULL);
    pthread_attr_init(&how);
    pthread_attr_setaffinity_np(&how, sizeof cpus_of[0], &cpus_of[node]);
    if (pthread_create(&own->thread, &how, run, own) != 0) {
        die("no thread");
    }
    pthread_attr_destroy(&how);
}

/* Those of nodes from `first` on; neighbours in the table are on neighbouring nodes. */
static void run_all(int first, int each_node, int is_filler, int last) {
    threads = each_node * (last - first);
    pthread_barrier_init(&all, NULL, threads);
    for (int i = 0; i < threads; i++) {
        workers[i].is_filler = is_filler;
        start(&workers[i], first + i % (last - first), work);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        for (int at = 0; at < BATCH; at++) {
            free(workers[i].box[at]);
        }
    }
    pthread_barrier_destroy(&all);
}

static void *control(void *argument) {
    struct worker *own = argument;
    static char *written;
    if (own->is_filler) {
        written = pages_of_system(PAGE);
        *written = 1;
        return NULL;
    }
    ask(own, written, 1);
    char *mine = pages_of_system(PAGE);
    *mine = 1;
    ask(own, mine, 1);
    return NULL;
}

static int run_control(void) {
    for (int is_second = 0; is_second < 2; is_second++) {
        workers[is_second].is_filler = !is_second;
        start(&workers[is_second], is_second, control);
        pthread_join(workers[is_second].thread, NULL);
    }
    struct worker *asked = &workers[1];
    printf("nodes: control %lu of %lu\n", asked->elsewhere, asked->pages);
    return asked->pages == 2 && asked->elsewhere == 1 && asked->unknown == 0 ? 0 : 1;
}

int main(int given, char **arguments) {
    if (given != 3 || (bytes = strtoul(arguments[2], NULL, 10)) == 0) {
        fprintf(stderr, "usage: nodes own|sleepers|handoff|heap|later|moved|control BYTES\n");
        return 64;
    }
    pattern = arguments[1];
    find_nodes();
    /* A MiB a thread, but neither very many nor very few blocks. */
    count = (1 << 20) / bytes;
    count = count > 4096 ? 4096 : count < 16 ? 16 : count;
    if (is("control")) {
        return run_control();
    }
    int each_node = CPU_COUNT(&cpus_of[0]);
    if (is("heap") || is("later")) {
        run_all(0, each_node, 1, 1);
        if (is("later")) {
            sleep(PAUSE);
        }
        run_all(1, each_node, 0, nodes);
    } else {
        run_all(0, each_node * (is("sleepers") ? 3 : 1), 0, nodes);
    }
    unsigned long pages = 0, elsewhere = 0, unknown = 0;
    for (int i = 0; i < threads; i++) {
        pages += workers[i].pages;
        elsewhere += workers[i].elsewhere;
        unknown += workers[i].unknown;
    }
    printf("nodes: %s %zu: %lu of %lu pages elsewhere, %lu unknown, %d threads on %d nodes\n", pattern, bytes, elsewhere, pages, unknown,
        threads, nodes);
    return unknown == 0 ? 0 : 1;
}
