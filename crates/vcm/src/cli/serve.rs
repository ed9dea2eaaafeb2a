//! The arguments of `vcm serve`.

use clap::Args;
use glob::Pattern;
use std::net::SocketAddr;
use std::path::PathBuf;

const SERVE_EXAMPLES: &str = "\
Examples:
  vcm serve                                          http://127.0.0.1:9747/ for a Prometheus on this host
  vcm serve --listen unix:/run/vcm/serve.sock        a socket for this user only
  vcm serve --listen 10.0.0.5:9747 --token /etc/vcm.token
                                                     for other hosts, which send 'Authorization: Bearer ...'
  vcm serve --processes 'osd.*' --processes 'glusterfs*'

Paths:
  /                                       list of the processes, as HTML
  /metrics                                metrics for Prometheus (OpenMetrics, or the older text format)
  /debug/pprof/heap?pid=N[&seconds=S]     live memory by call site, for pprof
  /debug/pprof/allocs?pid=N&seconds=S     allocations of S seconds
  /healthz                                'ok'

Reading a process requires root, CAP_SYS_PTRACE with CAP_DAC_READ_SEARCH, or the same user with
kernel.yama.ptrace_scope 0.

Exit status:
  0  ended by SIGTERM or Ctrl-C
  1  the address is not usable, or the token cannot be read
  2  wrong arguments; an address beyond this host without a token";

/// Serve metrics and heap profiles of all vcmalloc processes of this host.
#[derive(Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct Serve {
    /// Address and port, or unix socket, to listen on
    #[arg(long, value_name = "ADDRESS:PORT|unix:PATH", default_value = "127.0.0.1:9747", value_parser = place)]
    pub listen: Place,
    /// Require the token in this file, which only its owner may be able to read
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Only processes with this name or label (osd.3), with '*' and '?' as in a shell; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub processes: Vec<Pattern>,
    /// Include metrics for each size class: about 100 more lines per process
    #[arg(long)]
    pub classes: bool,
    /// Group that may also use the unix socket
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    Port(SocketAddr),
    Socket(PathBuf),
}

fn place(text: &str) -> Result<Place, &'static str> {
    const WANTED: &str = "give an address and a port, such as 127.0.0.1:9747 or [::1]:9747, or unix:/path";
    if let Some(path) = text.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        return if path.is_absolute() { Ok(Place::Socket(path)) } else { Err(WANTED) };
    }
    let text = text.strip_prefix("localhost:").map_or(text.to_string(), |port| format!("127.0.0.1:{port}"));
    text.parse().map(Place::Port).map_err(|_| WANTED)
}

fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text).map_err(|error| format!("invalid pattern: {}", error.msg))
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
