//! The limits: who may ask, how much at once and for how long; the place where it listens, and what it leaves.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use super::agent::{Agent, Program, Reply, tool, when};
use vcmalloc_tests::library::repository;
use vcmalloc_tests::{Ground, run};

/// Its words and its exit code, where it does not begin.
fn refused(arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(tool());
    let limit = super::agent::PATIENCE;
    let finished = run(command.arg("serve").args(arguments), limit).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(finished.complaints.lines().count(), 1, "{}", finished.complaints);
    (finished.complaints, finished.status.code())
}

fn token_file(folder: &Path, mode: u32) -> String {
    let path = folder.join("token");
    fs::write(&path, "0123456789abcdef0123\n").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    path.to_str().expect("text").to_string()
}

#[test]
fn beyond_this_host_it_listens_with_a_token_only_and_only_the_token_opens() {
    let folder = tempfile::tempdir().expect("a folder");
    let (said, code) = refused(&["--listen", "0.0.0.0:0"]);
    assert!(said.contains("--token FILE") && code == Some(2), "{code:?} {said}");
    let open = token_file(folder.path(), 0o644);
    let (said, code) = refused(&["--listen", "0.0.0.0:0", "--token", &open]);
    assert!(said.contains("chmod 600") && code == Some(1), "{code:?} {said}");
    let token = token_file(folder.path(), 0o600);
    let agent = Agent::start(&["--token", &token, "--processes", "nothing"]);
    let with = |header: &str| agent.ask(&format!("GET /metrics HTTP/1.1\r\nHost: h\r\n{header}\r\n")).status;
    assert_eq!(with("Authorization: Bearer 0123456789abcdef0123\r\n"), 200);
    for wrong in
        ["", "Authorization: Bearer 0123456789abcdef012\r\n", "Authorization: Basic 0123456789abcdef0123\r\n"]
    {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    assert_eq!(agent.get("/").status, 401);
    assert_eq!(agent.get("/healthz").text(), "ok\n");
}

#[test]
fn what_is_no_request_for_it_gets_a_line_and_the_code_for_it() {
    let agent = Agent::start(&["--processes", "nothing"]);
    let cases = [
        ("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        ("DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 400),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400),
        ("HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("\x01\x02 nonsense\r\n\r\n", 400),
    ];
    for (request, status) in cases {
        let reply = agent.ask(request);
        assert_eq!(reply.status, status, "{request}{}", reply.text());
        let has_line =
            reply.text().lines().count() == 1 || request.starts_with("HEAD") || reply.body.is_empty();
        assert!(has_line, "{request}{}", reply.text());
    }
    let long = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert_eq!(agent.ask(&long).status, 431);
    let many: String = (0..200).map(|at| format!("X{at}: y\r\n")).collect();
    assert_eq!(agent.ask(&format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}\r\n")).status, 431);
    assert_eq!(agent.get("/healthz").status, 200);
}

#[test]
fn a_client_that_sends_slowly_is_cut_off_and_keeps_nobody_waiting() {
    let agent = Agent::start(&["--processes", "nothing"]);
    let mut slow: Vec<_> = (0..30).map(|_| agent.place.connect()).collect();
    for (at, stream) in slow.iter_mut().enumerate() {
        let part = &"GET /metrics HTTP/1.1\r\nHost: local"[..at];
        stream.write_all(part.as_bytes()).expect("sent");
    }
    assert_eq!(agent.get("/healthz").status, 200);
    // Cut off, without an answer or with the one for it: reading comes to an end.
    for stream in slow {
        let reply = Reply::read(stream);
        assert!([0, 408].contains(&reply.status), "{}", reply.head);
    }
    assert_eq!(agent.get("/metrics").status, 200);
}

#[test]
fn a_connection_too_many_is_told_so_and_the_next_is_served_when_others_have_gone() {
    let agent = Agent::start(&["--processes", "nothing"]);
    let idle: Vec<_> = (0..64).map(|_| agent.place.connect()).collect();
    let reply = agent.get("/healthz");
    // The first of them may have been cut off by now, where this machine is slow.
    assert!([200, 503].contains(&reply.status), "{}", reply.head);
    if reply.status == 503 {
        assert_eq!(reply.text(), "too many connections; try again\n");
    }
    drop(idle);
    when("it is served", || (agent.get("/healthz").status == 200).then_some(()));
}

#[test]
fn a_port_in_use_is_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let (said, code) = refused(&["--listen", &address]);
    assert!(said.starts_with(&format!("vcm: {address} is in use")) && code == Some(1), "{code:?} {said}");
}

#[test]
fn a_socket_is_this_users_and_goes_with_the_agent() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("serve.sock");
    let place = format!("unix:{}", path.display());
    let start = || {
        Agent::start_by(Command::new(tool()).args(["serve", "--listen", &place, "--processes", "nothing"]))
    };
    // A file that is not a socket is left alone.
    fs::write(&path, "kept").expect("written");
    let (said, _) = refused(&["--listen", &place]);
    assert!(said.contains("is not a socket"), "{said}");
    assert_eq!(fs::read(&path).expect("it is there"), b"kept");
    fs::remove_file(&path).expect("removed");
    // A stale one makes room, one that is listened on does not.
    drop(UnixListener::bind(&path).expect("bound"));
    assert!(path.exists());
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let agent = start();
        assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
        assert_eq!(agent.get("/healthz").text(), "ok\n");
        let (said, code) = refused(&["--listen", &place]);
        assert!(said.contains("is in use ('ss -lxp'") && code == Some(1), "{said}");
        assert_eq!(agent.get("/healthz").text(), "ok\n");
        assert_eq!(agent.end(signal), Some(0));
        assert!(!path.exists());
    }
}

/// As nobody, without rights but those named.
fn as_nobody(folder: &Path, capabilities: &str) -> Agent {
    let copy = folder.join("vcm");
    if !copy.exists() {
        fs::copy(tool(), &copy).expect("copied");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
    command.args([format!("--inh-caps=-all{capabilities}"), format!("--ambient-caps=-all{capabilities}")]);
    command.arg(format!("--bounding-set=-all{capabilities}")).arg(copy);
    Agent::start_by(command.args(["serve", "--listen", "127.0.0.1:0"]))
}

/// The capabilities that the unit of systemd gives it.
fn of_the_unit() -> String {
    let path = repository().join("contrib/serve/vcm-serve.service");
    let unit = fs::read_to_string(path).expect("the unit is there");
    let line = |name: &str| {
        let words = unit.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        words.split(' ').map(|word| format!(",+{}", &word.to_lowercase()["cap_".len()..])).collect::<String>()
    };
    let (given, most) = (line("AmbientCapabilities="), line("CapabilityBoundingSet="));
    assert_eq!(given, most);
    given
}

#[test]
fn without_rights_processes_are_counted_as_forbidden_and_those_of_its_unit_are_enough() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        vcmalloc_tests::skip!("only root can become another user");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::start("steady.c", Ground::Preload);
    let pid = program.id().to_string();
    let agent = as_nobody(folder.path(), "");
    let forbidden = agent.value("vcmalloc_agent_unread_processes", &[("reason", "forbidden")]);
    assert!(forbidden >= Some(1.0), "{forbidden:?}");
    assert_eq!(agent.value("vcmalloc_live_bytes", &[("pid", &pid)]), None);
    assert!(agent.get("/").text().contains("CAP_SYS_PTRACE"));
    let agent = as_nobody(folder.path(), &of_the_unit());
    // To be told to take a profile is another right.
    let profile = agent.get(&format!("/debug/pprof/heap?pid={pid}"));
    assert!(profile.status == 503 && profile.text().contains("CAP_DAC_OVERRIDE"), "{}", profile.text());
    assert!(agent.value("vcmalloc_live_bytes", &[("pid", &pid)]).is_some(), "{}", agent.get("/").text());
}
