use std::collections::BTreeMap;
use std::ffi::c_int;
use std::process::ExitCode;

unsafe extern "C" {
    fn rounds(count: c_int) -> c_int;
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
    // SAFETY: C's, for any number.
    ExitCode::from(if count > 0 { unsafe { rounds(count) } } else { 0 } as u8)
}
