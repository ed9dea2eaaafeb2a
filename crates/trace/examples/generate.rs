//! A long trace for the tests of what reads traces: `generate FILE MILLIONS THREADS LIVE`.
//!
//! Each thread keeps about LIVE blocks of its own, of sizes as servers ask for, and frees one for each that it allocates: three of four
//! its own, the fourth one that another thread allocated a while ago.

use std::collections::VecDeque;
use std::env::args;
use std::fs::File;
use std::io::BufWriter;
use vcm_trace::{Event, Header, Object, Writer};

fn main() -> vcm_trace::Result<()> {
    let words: Vec<String> = args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(file), Some(millions), Some(threads), Some(live)) =
        (words.first(), number(1), number(2), number(3))
    else {
        eprintln!("usage: generate FILE MILLIONS THREADS LIVE");
        std::process::exit(2);
    };
    let header = Header { writer: Some("generate".to_owned()), ..Header::default() };
    let mut writer = Writer::new(BufWriter::new(File::create(file)?), &header)?;
    let mut held: Vec<VecDeque<Object>> = vec![VecDeque::new(); threads as usize];
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut time, mut events) = (0, 0);
    while events < millions * 1_000_000 {
        // A thread runs for a while, as on a CPU.
        let thread = (random() % threads) as usize;
        let stream = thread as u32 + 1;
        for _ in 0..64 {
            time += 70;
            let bytes = match random() % 100 {
                0..60 => 16 + random() % 112,
                60..90 => 128 + random() % 896,
                90..99 => 1024 + random() % 7168,
                _ => 8192 + random() % 57_344,
            };
            let object = Object { stream, ordinal: writer.next_ordinal(stream) };
            writer.event(stream, time, &Event::Malloc { bytes })?;
            held[thread].push_back(object);
            events += 1;
            let from = if random() % 4 == 0 { (random() % threads) as usize } else { thread };
            if held[from].len() as u64 > live {
                let at = (random() % (held[from].len() as u64 - live / 2)) as usize;
                if let Some(object) = held[from].swap_remove_front(at) {
                    writer.event(stream, time + 30, &Event::Free { object })?;
                    events += 1;
                }
            }
        }
    }
    let (_, written) = writer.finish()?;
    println!("{} events, {} bytes", written.events, written.file_bytes);
    Ok(())
}
