//! Stand-ins for daemons in the tests of this crate and of those above it.

use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Answers `config show` and `config diff` for one client after another.
pub fn serve(path: &Path, shown: Value, differences: Value) {
    answer(path, move |question| match question {
        "config show" => shown.to_string(),
        _ => differences.to_string(),
    });
}

/// A daemon that answers its admin socket, one client after another.
pub fn answer(path: &Path, to: impl Fn(&str) -> String + Send + 'static) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = Vec::new();
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && byte != [0] {
                request.push(byte[0]);
            }
            // Somebody who only looks who listens asks nothing.
            let Ok(request) = serde_json::from_slice::<Value>(&request) else { continue };
            let answer = to(request["prefix"].as_str().unwrap_or_default());
            let length = (answer.len() as u32).to_be_bytes();
            let _ = stream.write_all(&length).and_then(|()| stream.write_all(answer.as_bytes()));
        }
    });
}
