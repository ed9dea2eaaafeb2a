//! Says which build of vcm-lab this is.

fn main() {
    vcmalloc_version::tell(&["core", "front", "inspect", "labs", "measure", "report"]);
}
