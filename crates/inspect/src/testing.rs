//! What stands in for daemons in the tests of this crate and of those above it.

use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Answers `config show` and `config diff` for one client after another.
pub fn serve(path: &Path, shown: Value, differences: Value) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = Vec::new();
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && byte != [0] {
                request.push(byte[0]);
            }
            let request: Value = serde_json::from_slice(&request).unwrap();
            let answer = match request["prefix"].as_str() {
                Some("config show") => shown.to_string(),
                _ => differences.to_string(),
            };
            stream.write_all(&(answer.len() as u32).to_be_bytes()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
}
