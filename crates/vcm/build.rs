//! Says which build of vcm this is.

fn main() {
    vcmalloc_version::tell(&["core", "front", "inspect", "measure", "trace", "vcm"]);
}
