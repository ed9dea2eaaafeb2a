//! Says which build of vcm this is.

#[path = "../preload/version.rs"]
mod version;

fn main() {
    version::tell(&["core", "labs", "vcm"]);
}
