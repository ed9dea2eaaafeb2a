//! Connections: how many there may be, how long each may take, and their end.
//!
//! One thread does all of it, and waits for nobody: looking at processes is done by others. A connection has one
//! request. It has so long to send its head, and so long for all of it; a profile has its seconds more.

use super::answer::Answer;
use super::listen::{Listener, Stream};
use super::route::Agent;
use hyper::Request;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

const MOST_CONNECTIONS: usize = 64;
/// Of a request's line and headers.
const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// A whole connection, besides the seconds of a profile.
const ALL_WITHIN: Duration = Duration::from_secs(30);
/// Answers under way when it is told to end.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// The signals that end it.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    pub fn on_signals() -> Result<Stop, String> {
        let on = |kind| signal(kind).map_err(|error| format!("cannot wait for signals: {error}"));
        Ok(Stop { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())? })
    }

    async fn comes(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Until a signal ends it.
pub async fn serve(listener: &Listener, agent: Arc<Agent>, mut stop: Stop) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.comes() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok(stream) => match places.clone().try_acquire_owned() {
                    Ok(place) => {
                        let agent = agent.clone();
                        connections.spawn(async move {
                            one(stream, agent).await;
                            drop(place);
                        });
                    }
                    Err(_) => refuse(stream).await,
                },
                // No descriptor is free, or it went away already: others are still answered.
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }
    agent.end();
    let all = async { while connections.join_next().await.is_some() {} };
    // A client that has not read the answer by then is cut off.
    let _ = timeout(LAST_ANSWERS, all).await;
}

/// Says so and does not wait whether that is read.
async fn refuse(mut stream: Box<dyn Stream>) {
    let line = "too many connections; try again\n";
    let status = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5";
    let kind = super::answer::TEXT;
    let text = format!("{status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{line}", line.len());
    let _ = timeout(Duration::from_millis(50), stream.write_all(text.as_bytes())).await;
}

async fn one(stream: Box<dyn Stream>, agent: Arc<Agent>) {
    let (deadline, mut until) = watch::channel(Instant::now() + ALL_WITHIN);
    let deadline = Arc::new(deadline);
    let service = service_fn(|request: Request<Incoming>| {
        let (agent, deadline) = (agent.clone(), deadline.clone());
        async move {
            let more = |more| {
                deadline.send_replace(Instant::now() + ALL_WITHIN + more);
            };
            Ok::<_, Infallible>(agent.answer(&request, &more).await.into_response())
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(MOST_HEAD)
        .max_headers(MOST_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    loop {
        let end = *until.borrow_and_update();
        tokio::select! {
            // An error is the client's affair: it is not there any more, or it was told.
            _ = &mut connection => return,
            () = sleep_until(end) => return,
            _ = until.changed() => {}
        }
    }
}

/// For what a request waits in vain.
pub fn too_slow(line: impl AsRef<str>) -> Answer {
    Answer::refused(StatusCode::SERVICE_UNAVAILABLE, line).with(hyper::header::RETRY_AFTER, "15")
}
