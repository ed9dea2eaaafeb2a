//! Asking a Ceph daemon over its admin socket.
//!
//! Owns the protocol: one JSON object with a zero behind it, then the length of the answer in four bytes, the
//! highest first, then the answer. Only commands that read are known here, so nothing can be changed by it.

use super::Setting;
use crate::process::Process;
use nix::errno::Errno;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use vcm_foreign::Shown;

/// A daemon that does not answer within this is not waited for where many are asked and somebody reads the page.
pub const BRIEF: Duration = Duration::from_secs(3);
/// For a measurement, which an answer that comes late does not spoil, and none does.
pub const LONG: Duration = Duration::from_secs(30);
/// `config show` of a large daemon is some 100 KiB, `perf histogram dump` less than a MiB.
const LONGEST_ANSWER: usize = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    ConfigShow,
    ConfigDiff,
    Status,
    MonStatus,
    PerfDump,
    PerfHistogramDump,
    Mempools,
}

impl Question {
    fn words(self) -> &'static str {
        match self {
            Question::ConfigShow => "config show",
            Question::ConfigDiff => "config diff",
            Question::Status => "status",
            Question::MonStatus => "mon_status",
            Question::PerfDump => "perf dump",
            Question::PerfHistogramDump => "perf histogram dump",
            Question::Mempools => "dump_mempools",
        }
    }
}

/// The admin sockets on which the process listens, as it names them: by the sockets it has open.
pub fn of(process: &Process) -> Vec<PathBuf> {
    let entries = fs::read_dir(process.file("fd")).into_iter().flatten().flatten();
    let open: Vec<String> = entries
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_string())
        })
        .collect();
    let table = vcm_foreign::file::text_of_kernel(&process.file("net/unix")).unwrap_or_default();
    let bound = table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let inode = words.nth(6)?;
        let path = words.next()?;
        (path.ends_with(".asok") && open.iter().any(|own| own == inode)).then(|| PathBuf::from(path))
    });
    bound.collect()
}

/// One question, one answer, within the limit from the first byte to the last.
pub fn ask(socket: &Path, question: Question, limit: Duration) -> io::Result<Value> {
    let said =
        |error: &dyn Display| format!("no answer to '{}' from {}: {error}", question.words(), socket.shown());
    let answer = talk(socket, question, limit).map_err(|error| io::Error::new(error.kind(), said(&error)))?;
    serde_json::from_slice(&answer).map_err(|_| {
        let begin = answer.get(..200).unwrap_or(&answer).shown();
        io::Error::other(said(&format!("it says {begin}")))
    })
}

fn talk(socket: &Path, question: Question, limit: Duration) -> io::Result<Vec<u8>> {
    let end = Instant::now() + limit;
    let mut stream = connect(socket, end)?;
    stream.set_write_timeout(Some(limit))?;
    let request = serde_json::json!({ "prefix": question.words(), "format": "json" });
    stream.write_all(format!("{request}\0").as_bytes())?;
    let mut length = [0; 4];
    read_until(&mut stream, &mut length, end)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST_ANSWER {
        return Err(io::Error::other(format!("an answer of {length} bytes")));
    }
    let mut answer = vec![0; length];
    read_until(&mut stream, &mut answer, end)?;
    Ok(answer)
}

/// A connect without a limit would wait for ever if nobody takes connections and no more may wait.
fn connect(socket: &Path, end: Instant) -> io::Result<UnixStream> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket as open};
    const STEP: Duration = Duration::from_millis(5);
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let descriptor = open(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let address = UnixAddr::new(socket)?;
    loop {
        match connect(descriptor.as_raw_fd(), &address) {
            Ok(()) => break,
            Err(Errno::EAGAIN | Errno::EINTR) if Instant::now() < end => sleep(STEP),
            Err(Errno::EAGAIN) => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
    let stream = UnixStream::from(descriptor);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn read_until(stream: &mut UnixStream, mut room: &mut [u8], end: Instant) -> io::Result<()> {
    while !room.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => room = room.get_mut(read..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The settings in effect, and for those that differ from the default who set them.
pub fn settings(socket: &Path) -> io::Result<BTreeMap<String, Setting>> {
    let shown = ask(socket, Question::ConfigShow, BRIEF)?;
    let differences = ask(socket, Question::ConfigDiff, BRIEF).unwrap_or(Value::Null);
    let values = shown.as_object().into_iter().flatten();
    let settings = values.map(|(name, value)| {
        let origin = origin(&differences, name);
        (name.shown().printed(), Setting { value: plain(value).as_str().shown().printed(), origin })
    });
    Ok(settings.collect())
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// `config diff` has, for each setting that differs, a value by each level that set one; the strongest
/// counts.
fn origin(differences: &Value, name: &str) -> String {
    const BY_STRENGTH: [&str; 7] = ["override", "cmdline", "argv", "env", "mon", "file", "conf"];
    let Some(levels) = differences.get("diff").and_then(|diff| diff.get(name)) else {
        return "default".into();
    };
    BY_STRENGTH.into_iter().find(|level| levels.get(level).is_some()).unwrap_or("daemon").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{answer, serve};

    #[test]
    fn values_come_with_the_level_that_set_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("osd.asok");
        let shown = serde_json::json!({ "debug_osd": "20/20", "osd_memory_target": "1", "debug_ms": "0/0" });
        let levels = serde_json::json!({ "diff": {
            "debug_osd": { "default": "1/5", "file": "10/10", "override": "20/20", "final": "20/20" },
            "osd_memory_target": { "default": "4", "mon": "1", "final": "1" } } });
        serve(&path, shown, levels);
        let settings = settings(&path).unwrap();
        let of = |name: &str| (settings[name].value.clone(), settings[name].origin.clone());
        assert_eq!(of("debug_osd"), ("20/20".into(), "override".into()));
        assert_eq!(of("osd_memory_target"), ("1".into(), "mon".into()));
        assert_eq!(of("debug_ms"), ("0/0".into(), "default".into()));
    }

    #[test]
    fn what_is_no_answer_is_an_error_that_names_socket_and_question() {
        let refused = |path: &Path| ask(path, Question::Status, LONG).unwrap_err().to_string();
        let gone = refused(Path::new("/nowhere/osd.7.asok"));
        assert!(gone.contains("osd.7.asok") && gone.contains("'status'"), "{gone}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("osd.0.asok");
        answer(&path, |question| format!("not using {question}"));
        assert!(refused(&path).contains("not using status"));
    }

    /// A daemon that sends these bytes of an answer, one at a time, for as long as anybody listens.
    fn dripping(path: &Path, begin: &'static [u8]) {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                for byte in begin.iter().chain(std::iter::repeat(&b' ')) {
                    if stream.write_all(&[*byte]).is_err() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
    }

    #[test]
    fn neither_a_daemon_that_never_ends_nor_one_that_claims_too_much_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (endless, boasting) = (folder.path().join("a"), folder.path().join("b"));
        dripping(&endless, &[0, 255, 0, 0]);
        let begin = Instant::now();
        let late = talk(&endless, Question::PerfDump, Duration::from_millis(50)).unwrap_err();
        assert!(matches!(late.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{late}");
        assert!(begin.elapsed() < LONG);
        dripping(&boasting, &[255, 255, 255, 255]);
        let refused = talk(&boasting, Question::PerfDump, LONG).unwrap_err().to_string();
        assert_eq!(refused, "an answer of 4294967295 bytes");
    }
}
