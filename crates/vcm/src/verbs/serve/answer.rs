//! A response: a status, a kind of text, and what it says.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

pub const TEXT: &str = "text/plain; charset=utf-8";
pub const HTML: &str = "text/html; charset=utf-8";

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub kind: &'static str,
    pub body: Vec<u8>,
    pub headers: Vec<(HeaderName, String)>,
}

impl Answer {
    pub fn of(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Answer { status: StatusCode::OK, kind, body: body.into(), headers: Vec::new() }
    }

    /// The answer that says what went wrong, in a line of text.
    pub fn refused(status: StatusCode, line: impl AsRef<str>) -> Self {
        let line = vcm_foreign::clean(line.as_ref()).replace(char::is_control, "?");
        Answer { status, ..Answer::of(TEXT, line + "\n") }
    }

    pub fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = self.status;
        let fixed = [
            (header::CONTENT_TYPE, self.kind),
            (header::CACHE_CONTROL, "no-store"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        ];
        let own = self.headers.iter().map(|(name, value)| (name.clone(), value.as_str()));
        for (name, value) in fixed.into_iter().chain(own) {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}
