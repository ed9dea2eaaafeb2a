//! Compiles the parts that must be C and C++ and sets the properties of the shared object. Shared by
//! every library of crates/libraries.

use std::env::{var, var_os};

fn main() {
    vcmalloc_version::tell(&["core", "exports", "libraries"]);
    let [shared, hardened, tcmalloc] =
        ["SHARED", "HARDENED", "TCMALLOC"].map(|name| var_os(format!("CARGO_FEATURE_{name}")).is_some());
    // The functions of fast.rs: where there are sequences, and no other work between them and the program.
    println!("cargo:rustc-check-cfg=cfg(whole_paths)");
    if var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") && !hardened {
        println!("cargo:rustc-cfg=whole_paths");
    }
    compile("../../exports/src/new_handler.cc", "-std=c++17", shared);
    if tcmalloc {
        // Up to C++17 std::string comes from libstdc++; since then it is compiled where it is used.
        compile("../../exports/src/gperftools/containers.cc", "-std=c++20", shared);
    }
    if !shared {
        compile_operators();
    }
    if shared {
        link(match (hardened, tcmalloc) {
            (_, true) => "libtcmalloc.so.4",
            (true, _) => "libvcmalloc-hardened.so",
            _ => "libvcmalloc.so",
        });
    }
    if tcmalloc {
        // Before glibc 2.34 the functions of moved.rs are there; since then these are empty and always
        // installed.
        for argument in ["-Wl,--no-as-needed", "-l:libdl.so.2", "-l:libpthread.so.0"] {
            println!("cargo:rustc-cdylib-link-arg={argument}");
        }
    }
}

fn compile(source: &str, standard: &str, shared: bool) {
    println!("cargo:rerun-if-changed={source}");
    let stem = source.rsplit('/').next().unwrap_or(source).trim_end_matches(".cc");
    cc::Build::new()
        .cpp(true)
        // A static program has no libraries to look into, and linking one warns about dlopen.
        .define("VCM_SHARED", if shared { "1" } else { "0" })
        // We load into programs without libstdc++, so nothing of it may be needed.
        .cpp_link_stdlib(None)
        .flag(standard)
        .flag("-fno-rtti")
        .flag("-fno-threadsafe-statics")
        .opt_level(2)
        .file(source)
        .compile(&format!("vcm_{stem}"));
}

fn compile_operators() {
    const SOURCE: &str = "../../exports/src/operators.S";
    println!("cargo:rerun-if-changed={SOURCE}");
    cc::Build::new().file(SOURCE).compile("vcm_operators");
}

fn link(name: &str) {
    for argument in [
        // Threads may be inside malloc and fork handlers stay registered: the library never goes away.
        "-Wl,-z,nodelete",
        // No lazy binding in the middle of an allocation.
        "-Wl,-z,now",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{name}");
}
