//! The fuzz targets: each takes any bytes, reads from them what to do, does it, and checks what must be true
//! whatever they said. A target panics where something is wrong.

pub mod bitmaps;
pub mod central;
#[cfg(feature = "tools")]
pub mod ceph_conf;
pub mod classes;
#[cfg(feature = "tools")]
pub mod elf;
pub mod forks;
pub mod heaps;
#[cfg(feature = "tools")]
pub mod jemalloc;
pub mod operations;
pub mod options;
pub mod pages;
pub mod pointers;
pub mod profile;
#[cfg(feature = "tools")]
pub mod statistics;
pub mod support;
pub mod tenants;
pub mod threads;
#[cfg(feature = "tools")]
pub mod trace;
#[cfg(feature = "tools")]
pub mod window;

/// Name and function of every target.
#[cfg(feature = "tools")]
pub const TARGETS: [(&str, fn(&[u8])); 17] = [
    ("bitmaps", bitmaps::run),
    ("central", central::run),
    ("ceph_conf", ceph_conf::run),
    ("classes", classes::run),
    ("elf", elf::run),
    ("forks", forks::run),
    ("heaps", heaps::run),
    ("jemalloc", jemalloc::run),
    ("operations", operations::run),
    ("options", options::run),
    ("pages", pages::run),
    ("pointers", pointers::run),
    ("profile", profile::run),
    ("statistics", statistics::run),
    ("threads", threads::run),
    ("trace", trace::run),
    ("window", window::run),
];
