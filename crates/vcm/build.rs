//! Says which build of vcm this is.

fn main() {
    vcmalloc_version::tell(&["core", "inspect", "labs", "measure", "trace", "vcm"]);
}
