//! The clients of memcached and redis: `vcm-bench client`, which runs as the load of a row. Those of redis print `loaded` with the
//! KiB that live in it, and keep their connection.

use crate::load::random::Random;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// Runs the client of this name; the words behind it say where its server is.
pub fn run(words: &[String]) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["memcached", port] => memcached(port),
        ["redis-phases", port] => redis_in_phases(port),
        ["redis-batches", port] => redis_in_batches(port),
        _ => bail!("there is no client '{}'", words.join(" ")),
    }
}

fn connect(port: &str) -> Result<TcpStream> {
    TcpStream::connect(("127.0.0.1", port.parse()?)).with_context(|| format!("nobody listens at {port}"))
}

/// Four connections that set values of many sizes, and read every second one back.
fn memcached(port: &str) -> Result<()> {
    let client = |number: usize| -> Result<()> {
        let mut stream = connect(port)?;
        let mut replies = BufReader::new(stream.try_clone()?);
        for start in (0..24_000).step_by(100) {
            let mut words = Vec::new();
            for key in start..start + 100 {
                let size = (key * 7919 + number) % 900 + 10;
                write!(words, "set k{number}-{} 0 0 {size} noreply\r\n", key * 31 % 20_000)?;
                words.resize(words.len() + size, b'v');
                words.extend(b"\r\n");
            }
            for key in start..start + 50 {
                write!(words, "get k{number}-{}\r\n", key * 31 % 20_000)?;
            }
            stream.write_all(&words)?;
            let (mut ends, mut line) = (0, Vec::new());
            while ends < 50 {
                line.clear();
                ensure!(replies.read_until(b'\n', &mut line)? > 0, "memcached broke off");
                ends += usize::from(line == b"END\r\n");
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let clients = [0, 1, 2, 3].map(|number| scope.spawn(move || client(number)));
        clients
            .into_iter()
            .try_for_each(|client| client.join().unwrap_or_else(|_| bail!("a client panicked")))
    })
}

/// A connection to redis, and the keys that it has set.
struct Redis {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
    keys: Vec<usize>,
    next: usize,
    random: Random,
}

impl Redis {
    fn at(port: &str) -> Result<Redis> {
        let stream = connect(port)?;
        let replies = BufReader::new(stream.try_clone()?);
        Ok(Redis { stream, replies, keys: Vec::new(), next: 0, random: Random::seeded(3) })
    }

    /// Sends commands by batches; each has an answer of one line.
    fn ask(&mut self, commands: &[Vec<Vec<u8>>], batch: usize) -> Result<()> {
        for some in commands.chunks(batch) {
            let mut text = Vec::new();
            for words in some {
                write!(text, "*{}\r\n", words.len())?;
                for word in words {
                    write!(text, "${}\r\n", word.len())?;
                    text.extend_from_slice(word);
                    text.extend(b"\r\n");
                }
            }
            self.stream.write_all(&text)?;
            for _ in some {
                let mut line = String::new();
                self.replies.read_line(&mut line)?;
                ensure!(line.starts_with(['+', ':']), "redis broke off, or refused: {}", line.trim());
            }
        }
        Ok(())
    }

    fn fill(&mut self, count: usize, size: usize) -> Result<()> {
        let new: Vec<usize> = (self.next..self.next + count).collect();
        self.next += count;
        for some in new.chunks(500) {
            let set = |key: &usize| vec![b"SET".to_vec(), format!("k{key}").into_bytes(), vec![b'v'; size]];
            self.ask(&some.iter().map(set).collect::<Vec<_>>(), 500)?;
        }
        self.keys.extend(new);
        Ok(())
    }

    /// Deletes so many keys, chosen at random.
    fn delete(&mut self, count: usize) -> Result<()> {
        for place in (1..self.keys.len()).rev() {
            let other = self.random.below(place + 1);
            self.keys.swap(place, other);
        }
        let gone: Vec<usize> = self.keys.drain(..count).collect();
        let delete = |keys: &[usize]| {
            let keys = keys.iter().map(|key| format!("k{key}").into_bytes());
            std::iter::once(b"DEL".to_vec()).chain(keys).collect()
        };
        self.ask(&gone.chunks(20).map(delete).collect::<Vec<_>>(), 50)
    }

    /// Keeps the connection. Live is what redis counts: all that the allocator says that a block has, not what was requested.
    fn hold(mut self) -> Result<()> {
        self.stream.write_all(b"INFO memory\r\n")?;
        let mut line = String::new();
        loop {
            line.clear();
            ensure!(self.replies.read_line(&mut line)? > 0, "redis broke off");
            if let Some(bytes) = line.strip_prefix("used_memory:") {
                println!("loaded {}", bytes.trim().parse::<u64>()? / 1024);
                std::thread::sleep(Duration::from_secs(600));
                return Ok(());
            }
        }
    }
}

/// Four sizes one after the other, of each nine tenths deleted.
fn redis_in_phases(port: &str) -> Result<()> {
    let mut redis = Redis::at(port)?;
    for size in [100, 300, 1000, 3000] {
        let bytes = if size == 100 { 150 * MIB } else { 135 * MIB };
        redis.fill(bytes / (size + 80), size)?;
        redis.delete(redis.keys.len() * 9 / 10)?;
    }
    redis.hold()
}

/// A peak, and then a tenth of it replaced in 150 batches, ten a second.
fn redis_in_batches(port: &str) -> Result<()> {
    let mut redis = Redis::at(port)?;
    redis.fill(300 * MIB / 780, 700)?;
    redis.delete(redis.keys.len() * 9 / 10)?;
    let start = Instant::now();
    for turn in 0..150 {
        std::thread::sleep(Duration::from_millis(turn * 100).saturating_sub(start.elapsed()));
        redis.delete(5000)?;
        redis.fill(5000, 700)?;
    }
    redis.hold()
}
