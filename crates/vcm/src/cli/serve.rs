//! The arguments of `vcm serve`.

use clap::Args;
use glob::Pattern;
use std::net::SocketAddr;
use std::path::PathBuf;

const SERVE_EXAMPLES: &str = "\
Examples:
  vcm serve                                          http://127.0.0.1:9747/ for a Prometheus of this host
  vcm serve --listen unix:/run/vcm/serve.sock        a socket that only this user may use
  vcm serve --listen 10.0.0.5:9747 --token /etc/vcm.token
                                                     for another host, which sends 'Authorization: Bearer ...'
  vcm serve --processes 'osd.*' --processes 'glusterfs*'

Paths:
  /                                       the processes, for a reader
  /metrics                                for Prometheus (OpenMetrics, or its older text)
  /debug/pprof/heap?pid=N[&seconds=S]     what is in use, by call site, for pprof
  /debug/pprof/allocs?pid=N&seconds=S     what is allocated in S seconds
  /healthz                                'ok'

Reading a process takes root, CAP_SYS_PTRACE with CAP_DAC_READ_SEARCH, or the same user where kernel.yama.ptrace_scope is 0.

Exit status:
  0  ended by SIGTERM or Ctrl-C
  1  it cannot listen there, or the token cannot be read
  2  wrong arguments; an address beyond this host without a token";

/// Serve metrics and heap profiles of every process on vcmalloc of this host.
#[derive(Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct Serve {
    /// Where to listen: an address and a port, or a unix socket
    #[arg(long, value_name = "ADDRESS:PORT|unix:PATH", default_value = "127.0.0.1:9747", value_parser = place)]
    pub listen: Place,
    /// Who asks must send the token in this file, which nobody else may read
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Only processes with this name or label (osd.3), '*' and '?' as in a shell; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub processes: Vec<Pattern>,
    /// Metrics for each size class too: some 100 lines more a process
    #[arg(long)]
    pub classes: bool,
    /// The group that may use the unix socket too
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    Port(SocketAddr),
    Socket(PathBuf),
}

fn place(text: &str) -> Result<Place, &'static str> {
    const WANTED: &str = "write an address and a port, as in 127.0.0.1:9747 or [::1]:9747, or unix:/path";
    if let Some(path) = text.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        return if path.is_absolute() { Ok(Place::Socket(path)) } else { Err(WANTED) };
    }
    let text = text.strip_prefix("localhost:").map_or(text.to_string(), |port| format!("127.0.0.1:{port}"));
    text.parse().map(Place::Port).map_err(|_| WANTED)
}

fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text).map_err(|error| format!("no pattern: {}", error.msg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_with_a_port_or_the_whole_path_of_a_socket() {
        let port = |text: &str| Place::Port(text.parse().unwrap());
        assert_eq!(place("127.0.0.1:80"), Ok(port("127.0.0.1:80")));
        assert_eq!(place("localhost:80"), Ok(port("127.0.0.1:80")));
        assert_eq!(place("[::1]:0"), Ok(port("[::1]:0")));
        assert_eq!(place("unix:/run/a b"), Ok(Place::Socket("/run/a b".into())));
        for wrong in ["", "9747", "127.0.0.1", "unix:", "unix:run/a", "127.0.0.1:99999", "host:80"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
