// Writes beyond a block, before it, and after it was freed; reads after it was freed. See damage.h.
#include "damage.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static const Region TARGET = {target, sizeof target};

static unsigned char *const AIM = target + 1024;

// Addresses of the target where they fit, as an attacker would write them.
static void write_words(char *to, size_t bytes) {
    uintptr_t word = (uintptr_t)AIM;
    for (size_t i = 0; i < bytes; i++)
        to[i] = bytes < 8 ? 'A' : ((char *)&word)[i % 8];
}

// Writes `bytes` behind (or before) the middle one of many blocks, and sees who is hurt.
static void write_outside(size_t size, int count, size_t bytes, bool behind) {
    char **block = outside<char *>(count);
    for (int i = 0; i < count; i++)
        block[i] = (char *)memset(malloc(size), 'a' + i % 26, size);
    int middle = count / 2;
    write_words(behind ? block[middle] + size : block[middle] - bytes, bytes);
    committed();
    bool neighbour = false;
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < size; at++)
            neighbour |= block[i][at] != 'a' + i % 26;
    free(block[middle]);
    for (int i = 0; i < count; i++)
        if (i != middle)
            free(block[i]);
    look_for_overlap(size, size > 64 * KIB ? 32 : 5000, TARGET, "chosen");
    go_on_working();
    if (neighbour)
        outcome("neighbour", "the contents of another block changed");
}

static void overflow_1() { write_outside(104, 256, 1, true); }
static void overflow_8() { write_outside(104, 256, 8, true); }
static void overflow_16() { write_outside(104, 256, 16, true); }
static void overflow_64() { write_outside(104, 256, 64, true); }
static void overflow_page() { write_outside(300000, 8, 4096, true); }
static void underflow_1() { write_outside(104, 256, 1, false); }
static void underflow_8() { write_outside(104, 256, 8, false); }
static void underflow_16() { write_outside(104, 256, 16, false); }
static void underflow_64() { write_outside(104, 256, 64, false); }
static void underflow_page() { write_outside(300000, 8, 4096, false); }

// Frees blocks, writes the address into the last, allocates again.
static void steer(size_t size) {
    static const int COUNT = 4;
    char *block[COUNT];
    for (char *&one : block)
        one = (char *)memset(malloc(size), 1, size);
    for (char *one : block)
        free(one);
    write_words(block[COUNT - 1], 16);
    committed();
    look_for_overlap(size, size > 64 * KIB ? 32 : 2000, TARGET, "chosen");
    go_on_working();
}

static void steer_small() { steer(64); }
static void steer_page() { steer(4096); }
static void steer_large() { steer(200 * KIB); }

struct Tally {
    long tries, chosen, crashes, words;
};

static uint64_t next_random(uint64_t &state) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

// One try: blocks of one size are freed in some order, and one of them is written to. Does malloc return the target?
static bool try_to_steer(uint64_t &random) {
    static const size_t SIZES[] = {16, 24, 32, 48, 64, 80, 128, 256, 512, 1024, 2048, 4096};
    static const int MOST = 12;
    size_t size = SIZES[next_random(random) % (sizeof SIZES / sizeof *SIZES)];
    int count = 1 + next_random(random) % 8;
    void *block[MOST];
    for (int i = 0; i < count; i++)
        block[i] = malloc(size);
    uint64_t order = next_random(random);
    for (int i = 0; i < count; i++)
        free(block[(i * (order % 2 ? 1 : count - 1) + (order >> 8)) % count]);
    uintptr_t *victim = (uintptr_t *)block[next_random(random) % count];
    uintptr_t raw = (uintptr_t)AIM, mixed = raw ^ ((uintptr_t)victim >> 12);
    uint64_t way = next_random(random);
    victim[way % 2] = way & 4 ? raw : mixed;
    if (way & 8)
        victim[1 - way % 2] = way & 16 ? raw : 0;
    bool chosen = false;
    int again = count + 2;
    for (int i = 0; i < again; i++) {
        block[i] = malloc(size);
        chosen |= TARGET.has(block[i]);
    }
    for (int i = 0; i < again && !chosen; i++)
        free(block[i]);
    return chosen;
}

// A worker goes on until the heap is hurt; then a new one takes its place.
static void steer_at_random() {
    const char *given = getenv("MISUSE_TRIES");
    const long wanted = given ? atol(given) : 200000, workers = 2000;
    Tally *tally = (Tally *)mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    // The pipe for what the workers say before they end; nobody reads the text.
    int said[2];
    if (pipe2(said, O_NONBLOCK | O_CLOEXEC) != 0)
        _exit(3);
    committed();
    for (long worker = 0; worker < workers && tally->tries < wanted; worker++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGALRM, SIG_DFL);
            alarm(60);
            dup2(said[1], 2);
            uint64_t random = 88172645463325252ull + worker * 7919;
            while (tally->tries < wanted) {
                tally->tries++;
                if (try_to_steer(random)) {
                    tally->chosen++;
                    _exit(0);
                }
            }
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        // The alarm is the shift's end, not the heap's.
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGALRM) {
            char text[4096];
            tally->words += read(said[0], text, sizeof text) > 0;
            tally->crashes++;
        }
    }
    bool all_said = tally->words == tally->crashes;
    const char *word = tally->chosen ? "chosen" : !tally->crashes ? "harmless" : all_said ? "stopped" : "crashed";
    outcome(word, "%ld of %ld tries chose the address, %ld ended the process, %ld of these with a message",
            tally->chosen, tally->tries, tally->crashes, tally->words);
}

static void read_after_free(size_t size) {
    char *block = (char *)memset(malloc(size), 's', size);
    free(block);
    size_t stale = 0;
    for (size_t i = 0; i < size; i++)
        stale += ((volatile char *)block)[i] == 's';
    committed();
    if (stale > size / 2)
        outcome("stale", "%zu of %zu freed bytes could be read", stale, size);
}

static void read_after_free_small() { read_after_free(64); }
static void read_after_free_large() { read_after_free(MIB); }

static void calloc_after_write_after_free() {
    for (size_t size = 64; size <= 4 * MIB; size *= 4) {
        char *block = (char *)malloc(size);
        memset(block, 1, size);
        free(block);
        malloc_trim(0);
        // If the pages are gone from the address space, the write itself is the end.
        block[size / 2] = 1;
        block[32] = 1;
        char *zeroed = (char *)calloc(1, size);
        for (size_t i = 0; i < size; i++)
            if (zeroed[i] != 0)
                outcome("not-zero", "byte %zu of %zu that calloc gave", i, size);
    }
    committed();
}

static void read_of_no_bytes() {
    volatile char *block = (volatile char *)malloc(0);
    (void)*block;
    committed();
    free((void *)block);
}

static void write_to_no_bytes() {
    volatile char *block = (volatile char *)malloc(0);
    *block = 1;
    committed();
    free((void *)block);
    go_on_working();
}

// By a pointer that the compiler does not know: it would write the bytes itself.
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;

static void copy_outside(long from, size_t bytes) {
    char *block[64];
    for (char *&one : block)
        one = (char *)malloc(104);
    char stray[200] = {1};
    copy(block[32] + from, stray, bytes);
    committed();
    for (char *one : block)
        free(one);
    look_for_overlap(104, 5000, TARGET, "chosen");
    go_on_working();
}

static void copy_behind_a_block() { copy_outside(8, 97); }
static void copy_before_a_block() { copy_outside(-1, 2); }

static void copy_to_a_freed_block() {
    char *block = (char *)malloc(104);
    free(malloc(104));
    free(block);
    copy(block, "stray", 6);
    committed();
    go_on_working();
}

static void jump_into(size_t size) {
    // A function that returns at once, on x86-64.
    void *block = memset(malloc(size), 0xc3, size);
    ((void (*)())((char *)block + 16))();
    committed();
}

static void jump_into_a_small_block() { jump_into(100); }
static void jump_into_a_large_block() { jump_into(MIB); }

#define CRIME(name) {#name, name}
static const Crime CRIMES[] = {
    CRIME(overflow_1), CRIME(overflow_8), CRIME(overflow_16), CRIME(overflow_64), CRIME(overflow_page),
    CRIME(underflow_1), CRIME(underflow_8), CRIME(underflow_16), CRIME(underflow_64), CRIME(underflow_page),
    CRIME(steer_small), CRIME(steer_page), CRIME(steer_large), CRIME(steer_at_random),
    CRIME(read_after_free_small), CRIME(read_after_free_large), CRIME(calloc_after_write_after_free),
    CRIME(copy_behind_a_block), CRIME(copy_before_a_block), CRIME(copy_to_a_freed_block),
    CRIME(read_of_no_bytes), CRIME(write_to_no_bytes), CRIME(jump_into_a_small_block), CRIME(jump_into_a_large_block),
};

int main(int count, char **arguments) { return commit(CRIMES, count, arguments); }
