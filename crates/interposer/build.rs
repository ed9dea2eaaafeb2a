//! Compiles what must be C: a variable of each thread with a fixed place, and the operators, through which exceptions pass.

fn main() {
    for file in ["src/thread.c", "src/operators.c"] {
        println!("cargo:rerun-if-changed={file}");
    }
    cc::Build::new()
        .file("src/thread.c")
        .file("src/operators.c")
        .flag("-std=gnu11")
        .flag("-fexceptions")
        .flag("-fno-builtin")
        .flag("-fvisibility=hidden")
        .opt_level(2)
        .warnings(true)
        .compile("vcm_interposer_c");
    // Its functions stay in other libraries' tables, and nothing may be bound in the middle of an allocation.
    for argument in ["-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-soname,libvcm_interposer.so"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
