/* What each thread has. The place is fixed when the process starts: finding it can neither allocate nor call the loader. */

struct thread {
    unsigned id;
};

static __thread struct thread here __attribute__((tls_model("initial-exec")));

struct thread *vcm_interposer_thread(void) {
    return &here;
}
