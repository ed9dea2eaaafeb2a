//! Both halves on vcmalloc: the Rust half has it by `#[global_allocator]`, RocksDB, in C++, by the feature `override`.
//!
//! The program writes 32 MiB into RocksDB's table in memory, and says what the heap of the crate holds more than before:
//! those blocks are RocksDB's. It ends with 1 where RocksDB's blocks are another allocator's.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: vcmalloc::Vcmalloc = vcmalloc::Vcmalloc;

const VALUES: usize = 8192;
const VALUE_BYTES: usize = 4096;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("vcmalloc-rust-rocksdb-{}", std::process::id()));
    let grown = write_to(&folder);
    rocksdb::DB::destroy(&rocksdb::Options::default(), &folder)?;
    let (written, grown) = ((VALUES * VALUE_BYTES) as u64, grown?);
    println!("RocksDB was given {written} bytes, and vcmalloc holds {grown} more for it");
    print!("{}", vcmalloc::statistics_text());
    Ok(if grown >= written { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many bytes of vcmalloc's RocksDB takes for what is written into its table in memory.
fn write_to(folder: &std::path::Path) -> Result<u64, rocksdb::Error> {
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(256 << 20);
    let database = rocksdb::DB::open(&options, folder)?;
    let value = vec![b'v'; VALUE_BYTES];
    let before = vcmalloc::stats().live;
    for key in 0..VALUES {
        database.put(key.to_be_bytes(), &value)?;
    }
    Ok(vcmalloc::stats().live.saturating_sub(before))
}
