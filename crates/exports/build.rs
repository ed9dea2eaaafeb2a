//! Says which library is built, compiles the parts that must be C and C++, and sets the properties of the shared object.
//! Run for each library of crates/libraries.

use std::env::var;

/// The differences between the libraries, as the sources ask for them: `cfg(shared)` for the functions that come before
/// libc's, `cfg(hardened)` for the policy, `cfg(gperftools)` and `cfg(jemalloc)` for the stand-ins. No features of cargo's: those of
/// packages that are built together are united.
const DIFFERENCES: [&str; 4] = ["shared", "hardened", "gperftools", "jemalloc"];

/// The crate for Rust programs, whose manifest lies beside this file. It has features of cargo's: here one build is right to
/// have what any part of the program asks for.
const CRATE: &str = "vcmalloc";
const FEATURES: [&str; 4] = ["stats", "profile", "hardened", "override"];

/// The crate that takes the place of another: jemalloc's functions for Rust programs, with its features.
const TIKV: &str = "tikv-jemalloc-sys";
const UNPREFIXED: &str = "unprefixed_malloc_on_supported_platforms";

/// The name that programs know a library by (the number changes when a program that was linked could no longer run), none for
/// the archive; and its differences.
fn library(package: &str) -> (Option<&'static str>, &'static [&'static str]) {
    match package {
        "vcmalloc-shared" => (Some("libvcmalloc.so.0"), &["shared"]),
        "vcmalloc-hardened" => (Some("libvcmalloc-hardened.so.0"), &["shared", "hardened"]),
        "vcmalloc-hardened-static" => (None, &["hardened"]),
        "vcmalloc-tcmalloc" => (Some("libtcmalloc.so.4"), &["shared", "gperftools"]),
        "vcmalloc-jemalloc" => (Some("libjemalloc.so.2"), &["shared", "jemalloc"]),
        TIKV => (None, &["jemalloc"]),
        _ => (None, &[]),
    }
}

fn main() {
    vcmalloc_version::tell(&["core", "exports", "libraries"]);
    let package = var("CARGO_PKG_NAME").unwrap_or_default();
    let is_exported = tell_features(&package);
    let (soname, differences) = library(&package);
    for name in DIFFERENCES {
        println!("cargo:rustc-check-cfg=cfg({name})");
    }
    for name in differences {
        println!("cargo:rustc-cfg={name}");
    }
    let [shared, hardened, gperftools, jemalloc] = DIFFERENCES.map(|name| differences.contains(&name));
    let is_hardened = hardened || is_on("hardened");
    tell_kind(is_exported, is_hardened);
    // The functions of fast.rs, if there are sequences, and no other work between them and the program.
    println!("cargo:rustc-check-cfg=cfg(whole_paths)");
    let has_sequences = var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    // jemalloc's counts of threads are work between them.
    if has_sequences && is_exported && !is_hardened && !jemalloc {
        println!("cargo:rustc-cfg=whole_paths");
    }
    match package.as_str() {
        TIKV => stand_in_for_tikv(!is_exported),
        _ => println!("cargo:rustc-env=VCMALLOC_MALLOC_CONF="),
    }
    if !is_exported {
        return;
    }
    compile("new_handler.cc", "-std=c++17", shared);
    if gperftools {
        // Up to C++17 std::string comes from libstdc++; since then it is compiled where it is used.
        compile("gperftools/containers.cc", "-std=c++20", shared);
    }
    match soname {
        Some(name) => link(name),
        None => compile_operators(),
    }
    if soname.is_some() && (gperftools || jemalloc) {
        // Before glibc 2.34 the functions of moved.rs are there; since then these are empty and always
        // installed.
        for argument in ["-Wl,--no-as-needed", "-l:libdl.so.2", "-l:libpthread.so.0"] {
            println!("cargo:rustc-cdylib-link-arg={argument}");
        }
    }
}

/// Sets the words behind the version, wherever that is told: `vcm` knows a library by them.
fn tell_kind(is_exported: bool, is_hardened: bool) {
    let half = if is_exported { "" } else { " (Rust half)" };
    let policy = if is_hardened { " (hardened)" } else { "" };
    println!("cargo:rustc-env=VCMALLOC_KIND={half}{policy}");
}

fn is_on(feature: &str) -> bool {
    var(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_ok()
}

/// Sets `cfg(rust)` for the crate, with `cfg(rust_stats)` and `cfg(rust_profile)`; and `cfg(exported)` where C's and C++'s names are
/// exported, as all libraries do. Whether they are.
fn tell_features(package: &str) -> bool {
    for name in ["rust", "tikv", "prefixed", "exported", "rust_stats", "rust_profile", "fuzzed"] {
        println!("cargo:rustc-check-cfg=cfg({name})");
    }
    let is_exported = match package {
        CRATE => is_on("override"),
        TIKV => is_on(UNPREFIXED),
        _ => true,
    };
    if is_exported {
        println!("cargo:rustc-cfg=exported");
    }
    if package == CRATE {
        println!("cargo:rustc-cfg=rust");
        for feature in FEATURES.into_iter().filter(|feature| is_on(feature)) {
            match feature {
                "hardened" => println!("cargo:rustc-cfg=hardened"),
                "override" => {}
                _ => println!("cargo:rustc-cfg=rust_{feature}"),
            }
        }
    }
    if package == TIKV {
        println!("cargo:rustc-cfg=rust");
        println!("cargo:rustc-cfg=tikv");
        if is_on("fuzzed") {
            println!("cargo:rustc-cfg=fuzzed");
        }
        if !is_exported {
            println!("cargo:rustc-cfg=prefixed");
        }
    }
    is_exported
}

/// The other crate's build has more than a library: options that are built in, variables, and the header for C++ crates.
fn stand_in_for_tikv(is_prefixed: bool) {
    let mut build = cc::Build::new();
    if is_prefixed {
        build.define("PREFIXED", None);
    }
    build.file(source("variables.S")).compile("vcm_variables");
    let background = is_on("background_threads").then(|| "background_thread:true".to_string());
    let options: Vec<String> =
        background.into_iter().chain(set_by("JEMALLOC_SYS_WITH_MALLOC_CONF")).collect();
    println!("cargo:rustc-env=VCMALLOC_MALLOC_CONF={}", options.join(","));
    for name in [
        "JEMALLOC_OVERRIDE",
        "JEMALLOC_SYS_WITH_LG_PAGE",
        "JEMALLOC_SYS_WITH_LG_HUGEPAGE",
        "JEMALLOC_SYS_WITH_LG_QUANTUM",
        "JEMALLOC_SYS_WITH_LG_VADDR",
    ] {
        if set_by(name).is_some() {
            println!("cargo:warning={name} has no effect: vcmalloc stands in for jemalloc");
        }
    }
    let root = var("OUT_DIR").unwrap_or_default();
    let written = header(is_prefixed).and_then(|text| {
        std::fs::create_dir_all(format!("{root}/include/jemalloc"))?;
        std::fs::write(format!("{root}/include/jemalloc/jemalloc.h"), text)
    });
    if let Err(error) = written {
        println!("cargo:warning=no header jemalloc.h for C and C++: {error}");
    }
    println!("cargo:root={root}");
}

/// A variable of the other crate's build; one for the target comes before it.
fn set_by(name: &str) -> Option<String> {
    let target = var("TARGET").unwrap_or_default().to_uppercase().replace('-', "_");
    let names = [format!("{target}_{name}"), name.to_string()];
    names.iter().for_each(|name| println!("cargo:rerun-if-env-changed={name}"));
    names.iter().find_map(|name| var(name).ok())
}

/// jemalloc.h with the names of this build. With a prefix its macros are jemalloc's: `je_mallocx`, and `mallocx` where that is wanted.
fn header(is_prefixed: bool) -> std::io::Result<String> {
    const HEADER: &str = "../../../include/jemalloc/jemalloc.h";
    const FAMILY: &str = "\
void *malloc(size_t bytes) JEMALLOC_NOTHROW;
void *calloc(size_t count, size_t bytes) JEMALLOC_NOTHROW;
void *realloc(void *block, size_t bytes) JEMALLOC_NOTHROW;
void free(void *block) JEMALLOC_NOTHROW;
void *aligned_alloc(size_t alignment, size_t bytes) JEMALLOC_NOTHROW;
int posix_memalign(void **block, size_t alignment, size_t bytes) JEMALLOC_NOTHROW;
void *memalign(size_t alignment, size_t bytes) JEMALLOC_NOTHROW;
void *valloc(size_t bytes) JEMALLOC_NOTHROW;
";
    const NAMES: [&str; 22] = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "aligned_alloc",
        "posix_memalign",
        "memalign",
        "valloc",
        "mallocx",
        "rallocx",
        "xallocx",
        "sallocx",
        "dallocx",
        "sdallocx",
        "nallocx",
        "mallctl",
        "mallctlnametomib",
        "mallctlbymib",
        "malloc_stats_print",
        "malloc_usable_size",
        "malloc_conf",
        "malloc_message",
    ];
    println!("cargo:rerun-if-changed={HEADER}");
    let mut text = std::fs::read_to_string(HEADER)?;
    if !is_prefixed {
        return Ok(text);
    }
    let is_rename = |line: &str| line.starts_with("#define je_");
    text = text.lines().filter(|line| !is_rename(line)).map(|line| format!("{line}\n")).collect();
    text = text.replace("void *mallocx(", &format!("{FAMILY}void *mallocx("));
    let mut macros = String::new();
    for name in NAMES {
        for before in [" ", "*"] {
            for after in ["(", ";", ")("] {
                text =
                    text.replace(&format!("{before}{name}{after}"), &format!("{before}_rjem_{name}{after}"));
            }
        }
        macros += &format!("#ifndef JEMALLOC_NO_RENAME\n#define je_{name} _rjem_{name}\n#endif\n");
        macros += &format!("#ifdef JEMALLOC_MANGLE\n#define {name} _rjem_{name}\n#endif\n");
    }
    let end = text.rfind("#endif").unwrap_or(text.len());
    text.insert_str(end, &macros);
    Ok(text)
}

fn compile(file: &str, standard: &str, shared: bool) {
    let source = source(file);
    let stem = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".cc");
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
        .file(&source)
        .compile(&format!("vcm_{stem}"));
}

fn compile_operators() {
    cc::Build::new().file(source("operators.S")).compile("vcm_operators");
}

/// A file of the sources, from the manifest of each library, or from the crate's own.
fn source(file: &str) -> String {
    let is_crate = var("CARGO_PKG_NAME").is_ok_and(|package| package == CRATE);
    let path = format!("{}src/{file}", if is_crate { "" } else { "../../exports/" });
    println!("cargo:rerun-if-changed={path}");
    path
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
