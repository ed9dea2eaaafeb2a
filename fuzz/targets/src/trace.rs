//! A trace of any bytes: figures or an error, with memory and time that its length bounds.

use std::io::Cursor;

use vcm_trace::{Reader, cut, summarize};

/// Of what a trace holds, beyond which nothing that was recorded goes.
const FIRST: u64 = 4 << 20;
const TIMES: u64 = 256;

pub fn run(input: &[u8]) {
    let Ok(mut reader) = Reader::new(Cursor::new(input)) else { return };
    let most = FIRST + TIMES * input.len() as u64;
    if let Ok(summary) = summarize(&mut reader) {
        assert!(summary.events <= most && summary.live_blocks_at_end <= summary.events);
    }
    if let Ok(mut reader) = Reader::new(Cursor::new(input)) {
        let _ = reader.seek(input.len() as u64);
    }
    if let Ok(mut reader) = Reader::new(Cursor::new(input))
        && let Ok(writer) = vcm_trace::Writer::new(Vec::new(), &vcm_trace::Header::default())
    {
        let _ = cut(&mut reader, vcm_trace::Part::default(), writer);
    }
    let open = || Reader::new(Cursor::new(input));
    let _ = vcm_bounds::bounds(open, |events| assert!(events <= most));
    if let Ok(reader) = open() {
        let _ = vcm_replay::survey::survey(reader, |_| true);
    }
}
