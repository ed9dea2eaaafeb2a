/* What every program of packaging/linking/table does on the heap that it is linked with: forks and threads whose blocks keep their
   contents, and memory that goes back while the program is silent. Says what failed, returns 0 where nothing did. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 32, BURST = 64 << 20, PIECE = 3000, SILENCE = 40 };

static size_t bytes_of(int index) { return 16 + (size_t)index * 37 * (index % 7 + 1); }

static int is_filled(const unsigned char *block, size_t bytes, unsigned char with)
{
    for (size_t at = 0; at < bytes; at++)
        if (block[at] != with)
            return 0;
    return 1;
}

static void fill(unsigned char **blocks, unsigned char with)
{
    for (int index = 0; index < BLOCKS; index++) {
        blocks[index] = malloc(bytes_of(index));
        if (!blocks[index])
            abort();
        memset(blocks[index], with, bytes_of(index));
    }
}

static int emptied(unsigned char **blocks, unsigned char with)
{
    int kept = 1;
    for (int index = 0; index < BLOCKS; index++) {
        kept &= is_filled(blocks[index], bytes_of(index), with);
        free(blocks[index]);
    }
    return kept;
}

static int forks(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        unsigned char *blocks[BLOCKS], *more[BLOCKS];
        fill(blocks, (unsigned char)round);
        pid_t child = fork();
        if (child < 0)
            return 0;
        if (!child) {
            fill(more, (unsigned char)(round + 1));
            _exit(!(emptied(blocks, (unsigned char)round) && emptied(more, (unsigned char)(round + 1))));
        }
        int status = 1;
        if (waitpid(child, &status, 0) != child || status || !emptied(blocks, (unsigned char)round))
            return 0;
    }
    return 1;
}

static void *gives(void *with)
{
    unsigned char **blocks = calloc(BLOCKS, sizeof *blocks), *own[BLOCKS];
    if (!blocks)
        abort();
    fill(blocks, *(unsigned char *)with);
    fill(own, (unsigned char)~*(unsigned char *)with);
    return emptied(own, (unsigned char)~*(unsigned char *)with) ? blocks : NULL;
}

static int threads(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        pthread_t thread;
        unsigned char with = (unsigned char)round;
        void *blocks;
        if (pthread_create(&thread, NULL, gives, &with) || pthread_join(thread, &blocks) || !blocks || !emptied(blocks, with))
            return 0;
        free(blocks);
    }
    return 1;
}

/* Calls nothing that allocates. */
static long resident(void)
{
    char text[128] = {0};
    int file = open("/proc/self/statm", O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0)
        abort();
    close(file);
    return atol(strchr(text, ' ')) * sysconf(_SC_PAGESIZE);
}

static void *bursts(void *unused)
{
    enum { PIECES = BURST / PIECE };
    char **pieces = malloc(PIECES * sizeof *pieces);
    if (!pieces)
        abort();
    for (int index = 0; index < PIECES; index++) {
        pieces[index] = malloc(PIECE);
        memset(pieces[index], index, PIECE);
    }
    for (int index = 0; index < PIECES; index++)
        free(pieces[index]);
    free(pieces);
    return unused;
}

/* MiB that stay of the burst of four threads, at most four seconds later. */
static long stays(void)
{
    pthread_t thread[4];
    long before = resident(), most = (32 << 20) + BURST / 10 * 4;
    for (int index = 0; index < 4; index++)
        if (pthread_create(&thread[index], NULL, bursts, NULL))
            abort();
    for (int index = 0; index < 4; index++)
        pthread_join(thread[index], NULL);
    for (int look = 0; look < SILENCE && resident() - before > most; look++)
        usleep(100000);
    long left = resident() - before;
    return left > most ? left >> 20 : 0;
}

int rounds(int count)
{
    if (!forks(count))
        return puts("a fork's blocks were not kept"), 1;
    if (!threads(count))
        return puts("a thread's blocks were not kept"), 1;
    long left = stays();
    if (left)
        return printf("%ld MiB stay of 256 that were freed\n", left), 1;
    return 0;
}
