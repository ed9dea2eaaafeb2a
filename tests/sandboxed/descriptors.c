// Descriptors: the numbers belong to the program, and none of ours is ever among them.
#include "probe.h"

enum { LOOKED_AT = 64 };

static int known[LOOKED_AT];

static void note_descriptors(void) {
    for (int number = 0; number < LOOKED_AT; number++)
        known[number] = fcntl(number, F_GETFD) >= 0;
}

/* The first descriptor that the program did not open, or -1. */
static int stranger(void) {
    for (int number = 0; number < LOOKED_AT; number++)
        if (!known[number] && fcntl(number, F_GETFD) >= 0)
            return number;
    return -1;
}

static int open_descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    EXPECT(folder != NULL, "/proc/self/fd");
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count - 3; // ., .. and the folder itself
}

static void the_lowest_number_is_free(void) {
    pthread_t thread;
    start_at_work(&thread, 1);
    int saved = dup(0);
    double end = seconds() + 0.4;
    long opens = 0, wrong = 0;
    while (seconds() < end) {
        close(0);
        int number = open("/dev/null", O_RDWR);
        opens++;
        if (number != 0) {
            wrong++;
            dup2(number, 0);
            close(number);
        }
    }
    dup2(saved, 0);
    close(saved);
    stop_workers(&thread, 1);
    EXPECT(wrong == 0, "close(0) and open to give 0, but %ld of %ld times it was another", wrong, opens);
}

static void children_inherit_only_the_programs(void) {
    pthread_t thread;
    note_descriptors();
    start_at_work(&thread, 1);
    double end = seconds() + 0.5;
    for (long forks = 0; seconds() < end; forks++) {
        pid_t child = fork();
        EXPECT(child >= 0, "to fork");
        if (child == 0) {
            int number = stranger();
            EXPECT(number < 0, "no descriptor but the program's in child %ld, but there is %d", forks, number);
            _exit(0);
        }
        expect_success(child, "a child");
    }
    stop_workers(&thread, 1);
}

static void a_program_after_exec_has_only_the_programs(void) {
    if (is_again()) {
        int open = open_descriptors();
        EXPECT(open == atoi(all_arguments[2]), "%s descriptors as before exec, not %d", all_arguments[2], open);
        return;
    }
    char count[20];
    snprintf(count, sizeof count, "%d", open_descriptors());
    warm();
    start_again(count);
}

static void their_number_is_stable(void) {
    int before = open_descriptors();
    warm();
    pthread_t thread[2];
    start_at_work(thread, 2);
    for (int look = 0; look < 200; look++, usleep(1000))
        EXPECT(open_descriptors() == before, "%d open descriptors, not %d at look %d", before, open_descriptors(), look);
    stop_workers(thread, 2);
}

static void all_are_closed(void) {
    warm();
    closefrom(3);
    live();
    pthread_t thread;
    start_at_work(&thread, 1);
    usleep(50000);
    for (int number = 3; number < 1024; number++)
        close(number);
    EXPECT(close_range(3, ~0u, 0) == 0, "close_range");
    usleep(50000);
    stop_workers(&thread, 1);
    live();
}

static void a_table_of_its_own(void) {
    warm();
    if (close_range(3, ~0u, CLOSE_RANGE_UNSHARE) != 0)
        SKIP("there is no close_range here");
    live();
}

/* Nothing of ours is in the way of a program that puts its own files onto numbers of its choice. */
static void every_number_is_used(void) {
    warm();
    for (int number = 3; number < 512; number++)
        EXPECT(dup2(2, number) == number, "number %d", number);
    usleep(50000);
    live();
    struct stat first, other;
    EXPECT(fstat(2, &first) == 0, "a file");
    for (int number = 3; number < 512; number++)
        EXPECT(fstat(number, &other) == 0 && other.st_ino == first.st_ino, "number %d to be the same file", number);
}

static void closed_standard_streams(void) {
    if (!is_again()) {
        int kept = fcntl(2, F_DUPFD, 100);
        EXPECT(kept >= 100, "a copy of stderr");
        closefrom(101);
        close_range(0, 99, 0);
        start_again("without");
    }
    close(open("/dev/null", O_RDONLY));
    for (int number = 0; number < 3; number++) {
        int got = open("/dev/null", O_RDWR);
        if (got != number)
            dprintf(100, "expected number %d to be the lowest after exec, not %d\n", number, got), _exit(1);
    }
    dup2(100, 2);
    close(100);
    live();
}

static void nothing_is_written_into_files_of_the_program(void) {
    char path[] = "/tmp/probe-XXXXXX";
    int file = mkstemp(path), kept = dup(2);
    EXPECT(file >= 0, "a file");
    unlink(path);
    dup2(file, 1);
    dup2(file, 2);
    warm();
    live();
    dup2(kept, 2);
    EXPECT(lseek(file, 0, SEEK_END) == 0, "an empty file");
}

static const struct Case CASES[] = {
    CASE(the_lowest_number_is_free),
    CASE(children_inherit_only_the_programs),
    CASE(a_program_after_exec_has_only_the_programs),
    CASE(their_number_is_stable),
    CASE(all_are_closed),
    CASE(a_table_of_its_own),
    CASE(every_number_is_used),
    CASE(closed_standard_streams),
    CASE(nothing_is_written_into_files_of_the_program),
};

int main(int argc, char **argv) { return RUN(CASES); }
