#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vcmalloc_fuzz_targets::jemalloc::run(input));
