/*
 * The load: FILES files are created and written in parallel over VOLUMES volumes, then deleted. Volumes are called
 * v1, v2 ... and are spoken to through libgfapi, one thread each. Prints one JSON object.
 *
 *   load HOST VOLUMES FILES BYTES LOGFILE
 */
#include <errno.h>
#include <fcntl.h>
#include <glusterfs/api/glfs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DAEMON_PORT 24007
#define MOST_TOLD 5

static int volumes, files_each, bytes;
static glfs_t **connections;
static char *payload;
static long errors;
static pthread_barrier_t together;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void failed(const char *what, long volume) {
    if (__sync_fetch_and_add(&errors, 1) < MOST_TOLD)
        fprintf(stderr, "%s in volume v%ld: %s\n", what, volume + 1, strerror(errno));
}

static void create_all(long volume) {
    char path[64];
    for (int i = 0; i < files_each; i++) {
        snprintf(path, sizeof path, "/load/f%06d", i);
        glfs_fd_t *file = glfs_creat(connections[volume], path, O_WRONLY | O_TRUNC, 0644);
        if (!file) {
            failed("create", volume);
            continue;
        }
        if (glfs_write(file, payload, bytes, 0) != bytes)
            failed("write", volume);
        if (glfs_close(file))
            failed("close", volume);
    }
}

static void delete_all(long volume) {
    char path[64];
    for (int i = 0; i < files_each; i++) {
        snprintf(path, sizeof path, "/load/f%06d", i);
        if (glfs_unlink(connections[volume], path))
            failed("unlink", volume);
    }
}

static void *work(void *argument) {
    long volume = (long)argument;
    if (glfs_mkdir(connections[volume], "/load", 0755) && errno != EEXIST)
        failed("mkdir", volume);
    pthread_barrier_wait(&together);
    create_all(volume);
    pthread_barrier_wait(&together);
    delete_all(volume);
    pthread_barrier_wait(&together);
    return NULL;
}

static void connect_to(long volume, const char *host, const char *log) {
    char name[32];
    struct stat root;
    snprintf(name, sizeof name, "v%ld", volume + 1);
    for (int attempt = 0; attempt < 5; attempt++) {
        glfs_t *connection = connections[volume] = glfs_new(name);
        glfs_set_volfile_server(connection, "tcp", host, DAEMON_PORT);
        glfs_set_logging(connection, log, 3);
        if (glfs_init(connection) == 0)
            break;
        connections[volume] = NULL;
        sleep(1);
    }
    if (!connections[volume]) {
        failed("connect", volume);
        exit(2);
    }
    /* Bricks of a volume that has just been started answer a little later. */
    for (int attempt = 0; attempt < 300 && glfs_stat(connections[volume], "/", &root); attempt++)
        usleep(100000);
}

int main(int count, char **words) {
    if (count != 6) {
        fprintf(stderr, "usage: load HOST VOLUMES FILES BYTES LOGFILE\n");
        return 2;
    }
    volumes = atoi(words[2]);
    files_each = atoi(words[3]) / volumes;
    bytes = atoi(words[4]);
    payload = malloc(bytes);
    memset(payload, 'x', bytes);
    connections = calloc(volumes, sizeof *connections);
    for (long volume = 0; volume < volumes; volume++)
        connect_to(volume, words[1], words[5]);
    pthread_t *threads = calloc(volumes, sizeof *threads);
    pthread_barrier_init(&together, NULL, volumes + 1);
    for (long volume = 0; volume < volumes; volume++)
        pthread_create(&threads[volume], NULL, work, (void *)volume);
    pthread_barrier_wait(&together);
    double begin = now();
    pthread_barrier_wait(&together);
    double created = now();
    pthread_barrier_wait(&together);
    double deleted = now();
    printf("{\"files\": %d, \"create_seconds\": %.3f, \"delete_seconds\": %.3f, \"errors\": %ld}\n",
           files_each * volumes, created - begin, deleted - created, errors);
    fflush(stdout);
    /* Taking 30 connections down takes longer than the load. */
    _exit(errors ? 3 : 0);
}
