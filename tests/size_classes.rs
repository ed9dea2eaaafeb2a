//! docs/reference/size-classes.md is what the table of classes says. RENEW_GOLDEN=1 writes it.

use std::fmt::Write;
use std::fs;

use vcmalloc_core::class::{LARGEST_BYTES, SizeClass, UNIT_BYTES};
use vcmalloc_tests::library::repository;

const PAGE: &str = "docs/reference/size-classes.md";
const SYSTEM_PAGE_BYTES: usize = 4096;

#[test]
fn the_page_of_size_classes_is_what_the_table_says() {
    let path = repository().join(PAGE);
    let page = page();
    if std::env::var_os("RENEW_GOLDEN").is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{PAGE} is outdated; renew it: RENEW_GOLDEN=1 cargo test -p vcmalloc-tests --test size_classes"
    );
}

fn page() -> String {
    let mut text = format!(
        "# Size classes\n\n\
         <!-- Made by `RENEW_GOLDEN=1 cargo test -p vcmalloc-tests --test size_classes`; do not edit. -->\n\n\
         A request of up to {} KiB gets a block of the smallest class that holds it; a larger one gets a run of units of \
         {} KiB. The table is computed and proved when the library is compiled (`crates/core/src/class/mod.rs`).\n\n\
         - **block**: bytes of a block, and so the largest request of the class.\n\
         - **inside**: the most of a block that its request leaves unused: by the smallest request of the class, the class \
         below and one byte.\n\
         - **span**: pages of {SYSTEM_PAGE_BYTES} bytes from which the blocks are cut, how many blocks that gives, and what is left over \
         behind the last (**tail**).\n\
         - **batch**: how many blocks move between a cache and the middle in one go; a busy class moves several batches.\n\n\
         | class | block | inside | span | blocks | tail | batch |\n|--:|--:|--:|--:|--:|--:|--:|\n",
        LARGEST_BYTES >> 10,
        UNIT_BYTES >> 10,
    );
    let mut below = 0;
    for class in SizeClass::all() {
        let shape = class.shape();
        let (block, blocks) = (class.block_bytes(), shape.blocks as usize);
        let (inside, tail) = (block - below - 1, shape.span_bytes() - blocks * block);
        let _ = writeln!(
            text,
            "| {} | {block} | {} | {} | {blocks} | {} | {} |",
            class.index(),
            percent(inside, block),
            shape.span_bytes() / SYSTEM_PAGE_BYTES,
            percent(tail, shape.span_bytes()),
            shape.batch,
        );
        below = block;
    }
    text
}

fn percent(part: usize, whole: usize) -> String {
    match part {
        0 => "0".to_owned(),
        _ => format!("{:.1} %", 100.0 * part as f64 / whole as f64),
    }
}
