//! The answer that a request gets.

use super::answer::{Answer, TEXT};
use super::host::{Host, Round};
use super::profiles::{Kind, Profiles, Wanted};
use super::server::too_slow;
use super::supervisor::Board;
use super::token::Token;
use super::{metrics, page};
use crate::cli::serve::{Place, Serve};
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, StatusCode};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// A client that asks again within that time gets the same.
const FRESH: Duration = Duration::from_secs(1);
/// How long somebody waits for a look at all processes. Prometheus waits 10 seconds.
const PATIENCE: Duration = Duration::from_secs(9);

pub struct Agent {
    host: Arc<Mutex<Host>>,
    last: tokio::sync::Mutex<Option<Arc<Round>>>,
    /// The process that is looked at.
    board: &'static Board,
    token: Option<Token>,
    /// Anybody on this host may ask, so pages of the web that a browser here shows must not.
    is_local: bool,
    with_classes: bool,
    profiles: Profiles,
}

impl Agent {
    pub fn new(arguments: &Serve, token: Option<Token>, board: &'static Board) -> Self {
        Agent {
            host: Arc::new(Mutex::new(Host::new(arguments.processes.clone(), board))),
            last: tokio::sync::Mutex::new(None),
            board,
            is_local: token.is_none() && matches!(arguments.listen, Place::Port(_)),
            token,
            with_classes: arguments.classes,
            profiles: Profiles::new(&arguments.processes, board),
        }
    }

    /// `more` gives the connection so much more time.
    pub async fn answer(&self, request: &Request<Incoming>, more: &(dyn Fn(Duration) + Sync)) -> Answer {
        let path = request.uri().path();
        let profile = Kind::of(path);
        if profile.is_none() && !["/", "/metrics", "/healthz"].contains(&path) {
            let line = "not found; use /, /metrics, /debug/pprof/heap, /debug/pprof/allocs or /healthz";
            return Answer::refused(StatusCode::NOT_FOUND, line);
        }
        if let Some(refused) = self.refusal(request) {
            return refused;
        }
        if let Some(kind) = profile {
            return match Wanted::of(kind, request.uri().query().unwrap_or_default()) {
                Ok(wanted) => self.profiles.take(wanted, more).await,
                Err(refused) => refused,
            };
        }
        match path {
            "/metrics" => match self.round().await {
                Ok(round) => self.metrics(round, request.headers()),
                Err(refused) => refused,
            },
            "/" => match self.round().await {
                Ok(round) => Answer::of(super::answer::HTML, page::of(&round)),
                Err(refused) => refused,
            },
            _ => Answer::of(TEXT, "ok\n"),
        }
    }

    /// Why it is not answered, whatever it asks for.
    fn refusal(&self, request: &Request<Incoming>) -> Option<Answer> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let refused = Answer::refused(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported");
            return Some(refused.with(header::ALLOW, "GET, HEAD"));
        }
        if !request.body().is_end_stream() {
            return Some(Answer::refused(StatusCode::BAD_REQUEST, "a request body is not supported"));
        }
        if request.headers().get_all(header::HOST).iter().count() > 1 {
            return Some(Answer::refused(StatusCode::BAD_REQUEST, "the request names several hosts"));
        }
        if is_from_a_page(request.headers(), request.uri().path()) {
            let line = "cross-site request refused; open the address directly";
            return Some(Answer::refused(StatusCode::FORBIDDEN, line));
        }
        if self.is_local && !is_this_host(request.headers()) {
            let line = "unknown host name refused (DNS rebinding); use the address or 'localhost'";
            return Some(Answer::refused(StatusCode::BAD_REQUEST, line));
        }
        let sent = request.headers().get(header::AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes());
        let is_wrong = |token: &Token| request.uri().path() != "/healthz" && !token.is_in(sent);
        self.token.as_ref().filter(|token| is_wrong(token)).map(|_| {
            let line = "send the token: 'Authorization: Bearer TOKEN'";
            Answer::refused(StatusCode::UNAUTHORIZED, line).with(header::WWW_AUTHENTICATE, "Bearer")
        })
    }

    fn metrics(&self, round: Arc<Round>, headers: &HeaderMap) -> Answer {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match metrics::of(round, self.with_classes, accept) {
            Ok((kind, text)) => Answer::of(kind, text),
            Err(_) => too_slow("the metrics cannot be written"),
        }
    }

    /// A look at all processes. Clients that ask at once get the same one.
    async fn round(&self) -> Result<Arc<Round>, Answer> {
        let is_fresh = |round: &Arc<Round>| round.began.is_some_and(|began| began.elapsed() < FRESH);
        let look = async {
            let mut last = self.last.lock().await;
            if let Some(round) = last.as_ref().filter(|round| is_fresh(round)) {
                return Some(round.clone());
            }
            let host = self.host.clone();
            let found = spawn_blocking(move || match host.try_lock() {
                Ok(mut host) => Some(host.round()),
                Err(TryLockError::Poisoned(host)) => Some(host.into_inner().round()),
                // A look that somebody gave up to wait for is not through yet.
                Err(TryLockError::WouldBlock) => None,
            });
            let round = Arc::new(found.await.ok().flatten()?);
            *last = Some(round.clone());
            Some(round)
        };
        let found = timeout(PATIENCE, look).await.ok().flatten();
        found.ok_or_else(|| match self.board.longest() {
            None => too_slow("reading all processes takes too long; try again"),
            // The supervisor starts another one, which leaves that process alone.
            Some((_, true)) => std::process::abort(),
            Some((id, _)) => too_slow(format!("reading process {id} takes too long; try again")),
        })
    }

    /// Switches off what is switched on.
    pub fn end(&self) {
        self.profiles.end();
    }
}

/// Whether another page than ours made a browser ask. A browser says so itself; a user who opens our own page from
/// elsewhere (a link, a bookmark) may see it, and from there ask on.
fn is_from_a_page(headers: &HeaderMap, path: &str) -> bool {
    let word = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let own = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_foreign = |origin: &str| origin.split_once("://").is_none_or(|(_, host)| host != own);
    if word("origin").is_some_and(is_foreign) {
        return true;
    }
    match word("sec-fetch-site") {
        None | Some("none" | "same-origin") => false,
        Some(_) => {
            !(path == "/"
                && word("sec-fetch-mode") == Some("navigate")
                && word("sec-fetch-dest") == Some("document"))
        }
    }
}

/// Whether a request that came here was meant for here: a name that leads to this host may be anybody's.
fn is_this_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    let host = host.to_str().unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_page_makes_a_browser_ask_is_seen_by_its_origin_and_by_what_the_browser_says() {
        let is_from_a_page = |path: &str, lines: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "127.0.0.1:9747".parse().unwrap());
            lines.iter().for_each(|(name, value)| drop(headers.insert(*name, value.parse().unwrap())));
            is_from_a_page(&headers, path)
        };
        let heap = "/debug/pprof/heap";
        for asked in [&[][..], &[("sec-fetch-site", "none")], &[("sec-fetch-site", "same-origin")]] {
            assert!(!is_from_a_page(heap, asked));
        }
        assert!(!is_from_a_page(heap, &[("origin", "http://127.0.0.1:9747")]));
        for asked in [
            &[("origin", "http://evil.example")][..],
            &[("origin", "null")],
            &[("origin", "http://127.0.0.1:80")],
            &[("sec-fetch-site", "cross-site")],
            &[
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
        ] {
            assert!(is_from_a_page(heap, asked), "{asked:?}");
        }
        let link = |dest| {
            [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", dest)]
        };
        assert!(!is_from_a_page("/", &link("document")) && is_from_a_page("/", &link("iframe")));
    }

    #[test]
    fn a_request_for_another_name_was_not_meant_for_this_host() {
        let is_meant = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            is_this_host(&headers)
        };
        let meant = ["localhost", "localhost:9747", "127.0.0.1", "127.0.0.1:1", "[::1]:9747", "[::1]"];
        assert_eq!(meant.map(is_meant), [true; 6]);
        assert_eq!(
            ["evil.example", "evil.example:9747", "localhost.evil.example", ""].map(is_meant),
            [false; 4]
        );
        assert!(is_this_host(&HeaderMap::new()));
    }
}
