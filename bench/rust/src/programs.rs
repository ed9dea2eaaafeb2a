//! The programs. What they compute depends on their scale alone, so that all allocators do the same work.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::mpsc::sync_channel;
use std::thread;

type Program = fn(usize) -> u64;

/// In the order of the table.
pub const ALL: [(&str, Program); 6] = [
    ("trees", trees),
    ("words", words),
    ("document", document),
    ("slots", slots),
    ("channel", channel),
    ("growing", growing),
];

/// The standard map's own hasher begins with a random number, and with it the order of the map.
type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// xorshift64*: enough to choose sizes and places.
struct Random(u64);

impl Random {
    fn seeded(seed: usize) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (seed as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, |sum, number| sum.rotate_left(5).wrapping_add(number))
}

/// Small boxes of one size, a tree at a time, beside one that stays.
fn trees(scale: usize) -> u64 {
    struct Node(Option<Box<(Node, Node)>>);
    fn grown(depth: u32) -> Node {
        Node((depth > 0).then(|| Box::new((grown(depth - 1), grown(depth - 1)))))
    }
    fn count(node: &Node) -> u64 {
        1 + node.0.as_ref().map_or(0, |both| count(&both.0) + count(&both.1))
    }
    let stays = grown(17);
    let short = (0..120 * scale).map(|turn| count(&grown(12 + (turn % 5) as u32)));
    sum(short) ^ count(&stays)
}

/// A text of words that come again: strings, a map that grows, lists in it.
fn words(scale: usize) -> u64 {
    let mut random = Random::seeded(1);
    let mut places: Map<String, Vec<u32>> = Map::default();
    for place in 0..600_000 * scale {
        let kinds = 1 << (4 + random.below(14));
        let kind = random.below(kinds);
        let word = format!("{kind:x}{}", &"abcdefghijklmnopqrstuvwxyz"[..kind % 27]);
        places.entry(word).or_default().push(place as u32);
    }
    let sorted: BTreeMap<String, Vec<u32>> = places.into_iter().collect();
    sum(sorted.iter().map(|(word, places)| word.len() as u64 * places.len() as u64))
}

enum Value {
    Number(u64),
    Text(String),
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

/// A tree of values of every kind, read from text and written again, as a server of documents does it.
fn document(scale: usize) -> u64 {
    fn made(random: &mut Random, depth: usize) -> Value {
        match random.below(if depth == 0 { 2 } else { 5 }) {
            0 => Value::Number(random.next()),
            1 => Value::Text("x".repeat(random.below(60))),
            2 => Value::List((0..random.below(8)).map(|_| made(random, depth - 1)).collect()),
            _ => {
                let fields = 1 + random.below(9);
                Value::Object((0..fields).map(|at| (format!("field{at}"), made(random, depth - 1))).collect())
            }
        }
    }
    fn write(value: &Value, text: &mut String) {
        match value {
            Value::Number(number) => text.push_str(&number.to_string()),
            Value::Text(content) => text.push_str(&format!("{content:?}")),
            Value::List(values) => {
                text.push('[');
                values.iter().for_each(|value| {
                    write(value, text);
                    text.push(',');
                });
                text.push(']');
            }
            Value::Object(fields) => {
                text.push('{');
                fields.iter().for_each(|(name, value)| {
                    text.push_str(&format!("{name:?}:"));
                    write(value, text);
                    text.push(',');
                });
                text.push('}');
            }
        }
    }
    let (mut random, mut kept) = (Random::seeded(2), Vec::new());
    let mut lengths = 0;
    for turn in 0..4000 * scale {
        let value = made(&mut random, 5);
        let mut text = String::new();
        write(&value, &mut text);
        lengths = sum([lengths, text.len() as u64].into_iter());
        // The last thousand documents are kept, as a cache would.
        if kept.len() < 1000 { kept.push((value, text)) } else { kept[turn % 1000] = (value, text) }
    }
    lengths
}

/// Sixteen threads that replace what they hold at random, of 16 bytes to 16 KiB.
fn slots(scale: usize) -> u64 {
    let threads: Vec<_> = (0..16)
        .map(|seed| {
            thread::spawn(move || {
                let mut random = Random::seeded(100 + seed);
                let mut held: Vec<Vec<u8>> = (0..256).map(|_| Vec::new()).collect();
                let mut seen = 0;
                for _ in 0..60_000 * scale {
                    let bytes = 16 << random.below(11);
                    let mut block = vec![0u8; bytes + random.below(bytes)];
                    let slot = random.below(held.len());
                    let last = block.len() - 1;
                    (block[0], block[last]) = (slot as u8, bytes as u8);
                    let before = std::mem::replace(&mut held[slot], block);
                    seen += before.first().map_or(0, |&byte| u64::from(byte));
                }
                seen
            })
        })
        .collect();
    sum(threads.into_iter().map(|thread| thread.join().expect("a thread that does not panic")))
}

/// Four threads make messages, four others drop them.
fn channel(scale: usize) -> u64 {
    let pairs: Vec<_> = (0..4)
        .map(|seed| {
            let (sender, receiver) = sync_channel::<Vec<String>>(64);
            let maker = thread::spawn(move || {
                let mut random = Random::seeded(200 + seed);
                for _ in 0..12_000 * scale {
                    let lines = 1 + random.below(24);
                    let message = (0..lines).map(|_| "m".repeat(1 + random.below(200))).collect();
                    if sender.send(message).is_err() {
                        return;
                    }
                }
            });
            let taker = thread::spawn(move || sum(receiver.iter().map(|message| message.len() as u64)));
            (maker, taker)
        })
        .collect();
    sum(pairs.into_iter().map(|(maker, taker)| {
        maker.join().expect("a maker that does not panic");
        taker.join().expect("a taker that does not panic")
    }))
}

/// Buffers that grow by what is pushed to them: realloc, up to tens of MiB.
fn growing(scale: usize) -> u64 {
    let mut random = Random::seeded(3);
    let mut lengths = 0;
    for _ in 0..10 * scale {
        let mut buffers: Vec<Vec<u64>> = (0..16).map(|_| Vec::new()).collect();
        for turn in 0..400_000 {
            // Most of what comes goes to few of them.
            let many = 1 + random.below(16);
            let place = random.below(many);
            buffers[place].extend_from_slice(&[turn; 8]);
        }
        lengths = sum([lengths].into_iter().chain(buffers.iter().map(|buffer| buffer.len() as u64)));
    }
    lengths
}
