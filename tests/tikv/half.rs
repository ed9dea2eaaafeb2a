//! Builds the C half with the header of the crate.

fn main() {
    let root = std::env::var("DEP_JEMALLOC_ROOT").expect("the crate tells where its header is");
    let source = std::env::var("HALF").expect("the path of half.c");
    cc::Build::new().include(format!("{root}/include")).file(source).compile("half");
    println!("cargo:rustc-link-arg-bins=-rdynamic");
}
