//! Compiles the one part that must be C++ and sets the properties of the shared object.

fn main() {
    // Shared with crates/static and crates/hardened.
    const SOURCE: &str = "../preload/src/new_handler.cc";
    println!("cargo:rerun-if-changed={SOURCE}");
    let shared = std::env::var_os("CARGO_FEATURE_SHARED").is_some();
    let hardened = std::env::var_os("CARGO_FEATURE_HARDENED").is_some();
    cc::Build::new()
        .cpp(true)
        // A static program has no libraries to look into, and linking one warns about dlopen.
        .define("VCM_SHARED", if shared { "1" } else { "0" })
        // We load into programs without libstdc++, so nothing of it may be needed.
        .cpp_link_stdlib(None)
        .flag("-std=c++17")
        .flag("-fno-rtti")
        .flag("-fno-threadsafe-statics")
        .opt_level(2)
        .file(SOURCE)
        .compile("vcm_new_handler");
    if !shared {
        return;
    }
    let soname = if hardened { "libvcmalloc-hardened.so" } else { "libvcmalloc.so" };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    for argument in [
        // Threads may be inside malloc and fork handlers stay registered: the library never goes away.
        "-Wl,-z,nodelete",
        // No lazy binding in the middle of an allocation.
        "-Wl,-z,now",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
