//! A library of Rust's that is linked into a program of C, twice under two names.
#[unsafe(no_mangle)]
pub extern "C" fn NAME(count: u32) -> u32 {
    let words: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    words.iter().map(|word| word.len() as u32).sum()
}
