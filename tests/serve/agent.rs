//! `vcm serve` that is started, asked and ended; a program that it sees; and a request as it goes over the wire.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use vcmalloc_tests::{Ground, compile, library, machine};

/// No answer takes so long on any machine; it bounds the test where none comes.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn tool() -> PathBuf {
    library::tool().unwrap_or_else(|error| panic!("{error}"))
}

const BUSY: &str = "keeps.c";

/// A child that does not outlive its test.
pub struct Ended(pub Child);

impl Ended {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: sends a signal to a child of our own that was not waited for.
        unsafe { libc::kill(self.0.id() as i32, signal) };
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program on the library.
pub struct Program {
    pub child: Ended,
    /// The line that it said when it was ready.
    pub line: String,
    /// Held, so that what it says later ends nothing.
    _out: BufReader<ChildStdout>,
}

impl Program {
    pub fn compiled(name: &str, ground: Ground) -> PathBuf {
        let own = library::repository().join("tests/serve").join(name);
        let source = if own.exists() { own } else { library::repository().join("tests/window").join(name) };
        compile::program(&source, ground, &[]).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn start(name: &str, ground: Ground) -> Program {
        Self::run(&Self::compiled(name, ground), ground, &[])
    }

    /// A program that allocates without end.
    pub fn busy(ground: Ground) -> Program {
        let mut command = machine::command(&Self::compiled(BUSY, ground));
        ground.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
        Self::ready(&mut command)
    }

    /// On the library that stands in for TCMalloc.
    pub fn on_stand_in() -> Program {
        let mut command = machine::command(&Self::compiled(BUSY, Ground::Preload));
        Ground::Glibc.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
        Self::ready(command.env("LD_PRELOAD", library::stand_in().unwrap_or_else(|error| panic!("{error}"))))
    }

    pub fn run(program: &Path, ground: Ground, arguments: &[&str]) -> Program {
        let mut command = machine::command(program);
        ground.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
        // At rest nothing is given back between its own look and ours.
        Self::ready(command.args(arguments).env("VCM_JANITOR", "off"))
    }

    fn ready(command: &mut Command) -> Program {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let (mut line, mut out) = (String::new(), BufReader::new(child.stdout.take().expect("a pipe")));
        out.read_line(&mut line).expect("it says when it is ready");
        Program { child: Ended(child), line, _out: out }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

pub enum Place {
    Port(SocketAddr),
    Socket(PathBuf),
}

pub trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Place {
    pub fn connect(&self) -> Box<dyn Stream> {
        match self {
            Place::Port(address) => {
                let stream = TcpStream::connect(address).expect("it listens");
                stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
                Box::new(stream)
            }
            Place::Socket(path) => {
                let stream = UnixStream::connect(path).expect("it listens");
                stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
                Box::new(stream)
            }
        }
    }
}

/// The agent.
pub struct Agent {
    pub child: Ended,
    pub place: Place,
}

impl Agent {
    /// On a port of its own.
    pub fn start(arguments: &[&str]) -> Agent {
        Self::start_by(Command::new(tool()).args(["serve", "--listen", "127.0.0.1:0"]).args(arguments))
    }

    pub fn start_by(command: &mut Command) -> Agent {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("vcm starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says where");
        let line = line.trim_end();
        let place = match line.strip_prefix("listening on http://") {
            Some(address) => Place::Port(address.trim_end_matches('/').parse().expect("an address")),
            None => Place::Socket(line.strip_prefix("listening on unix:").expect(line).into()),
        };
        Agent { child: Ended(child), place }
    }

    pub fn address(&self) -> SocketAddr {
        match &self.place {
            Place::Port(address) => *address,
            Place::Socket(path) => panic!("it listens on {}", path.display()),
        }
    }

    pub fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    pub fn ask(&self, request: &str) -> Reply {
        let mut stream = self.place.connect();
        // It may answer and close before it has read all of a request that is too long.
        let _ = stream.write_all(request.as_bytes());
        Reply::read(stream)
    }

    /// The value of the line of this metric that has all of these labels.
    pub fn value(&self, metric: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let reply = self.get("/metrics");
        assert_eq!(reply.status, 200, "{}", reply.text());
        value_in(&reply.text(), metric, labels)
    }

    /// Ends it as systemd does; its exit code.
    pub fn end(mut self, signal: libc::c_int) -> Option<i32> {
        self.child.signal(signal);
        self.child.0.wait().expect("it ends").code()
    }
}

pub fn value_in(metrics: &str, metric: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let line = metrics.lines().find(|line| {
        let rest = line.strip_prefix(metric);
        rest.is_some_and(|rest| rest.starts_with('{') || (labels.is_empty() && rest.starts_with(' ')))
            && labels.iter().all(|(name, value)| line.contains(&format!("{name}=\"{value}\"")))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

/// An answer.
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn read(mut stream: Box<dyn Stream>) -> Reply {
        let mut bytes = Vec::new();
        // If the stream was cut off, the bytes before are the answer; if it was not, there is none.
        if let Err(error) = stream.read_to_end(&mut bytes) {
            let is_end = ![ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind());
            assert!(is_end, "neither an answer nor an end within {PATIENCE:?}");
        }
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Reply { status, head: head.to_lowercase(), body: bytes.get(end + 4..).unwrap_or_default().to_vec() }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Asks until it is so.
pub fn when<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let began = std::time::Instant::now();
    loop {
        if let Some(found) = is_so() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: never seen");
        std::thread::sleep(Duration::from_millis(100));
    }
}
