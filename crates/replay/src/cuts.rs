//! Slices of an epoch that can be replayed one after the other: whatever begins in one ends in it or in a later one.

use crate::script::Script;

/// A slice that is replayed without a look in between.
pub struct Slice {
    /// Of the trace, at its end.
    pub time: u64,
    /// Stream, first word, the word behind the last, whether the stream ends.
    pub ranges: Vec<(usize, usize, usize, bool)>,
}

/// Cuts a script at these times, and marks who has to wait for whom.
pub fn slices(script: &mut Script, times: &[u64]) -> Vec<Slice> {
    let mut from: Vec<usize> = script.parts.iter().map(|part| part.begin).collect();
    let mut next = vec![0; script.parts.len()];
    let mut slices = Vec::new();
    for (number, time) in times.iter().copied().chain([script.times.1]).enumerate() {
        let is_last = number == times.len();
        let to = if is_last {
            script.parts.iter().map(|part| part.end).collect()
        } else {
            cut(script, time, &from, &next)
        };
        pair(script, &mut next, &to);
        let range = |(at, part): (usize, &crate::script::Part)| {
            let ends = is_last && part.ends;
            (from[at] < to[at] || ends).then_some((part.stream, from[at], to[at], ends))
        };
        let ranges = script.parts.iter().enumerate().filter_map(range).collect();
        slices.push(Slice { time, ranges });
        from = to;
    }
    slices
}

/// Times that a cut is moved back.
const MOST_MOVES: usize = 1000;

/// About where each part is at this time. Times are known to 32 events, so an end may stand before its begin: then its
/// stream stops before it, and with that others may have to.
fn cut(script: &Script, time: u64, from: &[usize], next: &[usize]) -> Vec<usize> {
    let at_time = |(part, from): (&crate::script::Part, &usize)| {
        let behind = part.marks.partition_point(|(_, at)| *at <= time);
        let word = if behind == part.marks.len() { part.end } else { part.marks[behind.saturating_sub(1)].0 };
        word.max(*from)
    };
    let mut to: Vec<usize> = script.parts.iter().zip(from).map(at_time).collect();
    // In a trace that is right few streams wait for each other; a wrong one must not keep us for hours.
    for _ in 0..MOST_MOVES {
        let mut moved = false;
        for (at, part) in script.parts.iter().enumerate() {
            for crossing in part.crossings[next[at]..].iter().take_while(|crossing| crossing.at < to[at]) {
                if crossing.begun.is_some_and(|(other, word)| word >= to[other]) {
                    (to[at], moved) = (crossing.at, true);
                    break;
                }
            }
        }
        if !moved {
            break;
        }
    }
    to
}

/// A stream that ends a block in this slice waits for the stream that begins it there.
fn pair(script: &mut Script, next: &mut [usize], to: &[usize]) {
    for part in 0..to.len() {
        while let Some(crossing) = script.parts[part].crossings.get(next[part]) {
            if crossing.at >= to[part] {
                break;
            }
            // A block that began in an earlier slice is there; a flag more costs nothing but a look.
            script.wait_for(part, next[part]);
            next[part] += 1;
        }
    }
}
