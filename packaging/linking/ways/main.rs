use std::collections::BTreeMap;
use std::ffi::c_int;
use std::process::ExitCode;

unsafe extern "C" {
    fn rounds(count: c_int) -> c_int;
}

#[cfg(calls_us)]
unsafe extern "C" {
    fn vcm_release(keep: usize) -> usize;
}

fn collected() -> usize {
    let mut numbers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    (0..1000).for_each(|number| numbers.entry(format!("name {}", number % 100)).or_default().push(number));
    numbers.values().map(Vec::len).sum()
}

fn main() -> ExitCode {
    let count: c_int = std::env::args().nth(1).map_or(0, |word| word.parse().expect("a number"));
    let other = std::thread::spawn(collected);
    assert!(collected() == 1000 && other.join().expect("it ends") == 1000);
    // A linker keeps a library that is called.
    #[cfg(calls_us)]
    // SAFETY: it may be called at any time.
    unsafe {
        vcm_release(0)
    };
    // SAFETY: C's, for any number.
    ExitCode::from(if count > 0 { unsafe { rounds(count) } } else { 0 } as u8)
}
