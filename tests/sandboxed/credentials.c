// Credentials: what a program gives up holds for all of its threads, and it goes on without.
#include "probe.h"
#include <grp.h>
#include <linux/capability.h>
#include <semaphore.h>

static void need_root(void) {
    if (geteuid() != 0)
        SKIP("only root can give up privileges");
}

static const char *expected_field, *expected_value;

static void expect_field(int thread, const char *status) {
    char value[200];
    field(status, expected_field, value, sizeof value);
    // Groups end with a space.
    EXPECT(strncmp(value, expected_value, strlen(expected_value)) == 0 && value[strlen(expected_value)] <= ' ',
           "%s of thread %d to be %s, not %s", expected_field, thread, expected_value, value);
}

static void expect_of_every_thread(const char *name, const char *value) {
    expected_field = name;
    expected_value = value;
    each_task(expect_field);
}

static void ids_change_for_every_thread(void) {
    need_root();
    pthread_t thread[3];
    start_workers(thread, 3);
    gid_t groups[] = {1, 2};
    EXPECT(setgroups(2, groups) == 0, "setgroups");
    EXPECT(setresgid(NOBODY, NOBODY, NOBODY) == 0, "setresgid");
    EXPECT(setresuid(NOBODY, NOBODY, NOBODY) == 0, "setresuid");
    expect_of_every_thread("Groups", "1 2");
    expect_of_every_thread("Gid", "65534\t65534\t65534\t65534");
    expect_of_every_thread("Uid", "65534\t65534\t65534\t65534");
    expect_of_every_thread("CapEff", "0000000000000000");
    EXPECT(setuid(0) != 0 && errno == EPERM, "no way back");
    stop_workers(thread, 3);
    live();
}

static sem_t go_home;

static void *wait_for_the_end(void *unused) {
    work_and_free(1, 200);
    sem_wait(&go_home);
    return unused;
}

/* Each change interrupts every thread; busy ones would make this a test of how busy the machine is. */
static void effective_id_changes_200_times(void) {
    need_root();
    pthread_t thread[2];
    sem_init(&go_home, 0, 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&thread[i], NULL, wait_for_the_end, NULL) == 0, "a thread");
    for (int i = 0; i < 50; i++) {
        EXPECT(setegid(NOBODY) == 0 && seteuid(NOBODY) == 0, "to be nobody, %d", i);
        EXPECT(seteuid(0) == 0 && setegid(0) == 0, "to be root again, %d", i);
        work_and_free(i, 50);
    }
    for (int i = 0; i < 2; i++)
        sem_post(&go_home);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    live();
}

static void each_of_the_family_works(void) {
    need_root();
    warm();
    EXPECT(initgroups("root", 0) == 0 && setgid(1) == 0 && setregid(1, 1) == 0, "groups");
    EXPECT(setreuid(0, 1) == 0 && setreuid(1, 0) == 0 && setuid(1) == 0, "users");
    EXPECT(getuid() == 1 && geteuid() == 1 && getgid() == 1, "another user");
    expect_of_every_thread("Uid", "1\t1\t1\t1");
    live();
}

static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    EXPECT(syscall(SYS_capset, &header, none) == 0, "no capabilities");
}

static void capabilities_are_dropped(void) {
    need_root();
    for (int capability = 0; capability < 41; capability++)
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    drop_capabilities();
    live();
    if (!is_again())
        start_again("without");
    EXPECT(prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) == 0, "none after exec");
}

/* capset and prctl change the thread that calls. A program with one thread takes that for its process. */
static void single_thread_drops_for_its_process(void) {
    need_root();
    warm();
    drop_capabilities();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    tasks_after_a_while(1);
    expect_of_every_thread("CapEff", "0000000000000000");
    expect_of_every_thread("NoNewPrivs", "1");
}

static void no_new_privileges(void) {
    warm();
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    live();
    if (!is_again())
        start_again("without");
    EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "none after exec");
}

static void capabilities_are_kept_by_one_who_asks(void) {
    need_root();
    warm();
    EXPECT(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0, "another user");
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    EXPECT(syscall(SYS_capget, &header, data) == 0 && data[0].permitted != 0, "capabilities that are still permitted");
    live();
}

static const struct Case CASES[] = {
    CASE(ids_change_for_every_thread),
    CASE(effective_id_changes_200_times),
    CASE(each_of_the_family_works),
    CASE(capabilities_are_dropped),
    CASE(single_thread_drops_for_its_process),
    CASE(no_new_privileges),
    CASE(capabilities_are_kept_by_one_who_asks),
};

int main(int argc, char **argv) { return RUN(CASES); }
