//! Asking a daemon through its admin socket.
//!
//! Owns the protocol: one JSON object and a null byte go in, a length and a text come out. Promises an answer
//! or an error within half a minute. `osd` and `counters` call it.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// The answer to a command, as text.
pub fn ask_text(socket: &Path, command: &str) -> Result<String> {
    let talk = || -> Result<Vec<u8>> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(json!({ "prefix": command, "format": "json" }).to_string().as_bytes())?;
        stream.write_all(&[0])?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    };
    let answer = talk().with_context(|| format!("no answer to '{command}' from {}", socket.display()))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

pub fn ask(socket: &Path, command: &str) -> Result<Value> {
    let text = ask_text(socket, command)?;
    serde_json::from_str(&text).with_context(|| {
        let begin: String = text.chars().take(200).collect();
        format!("'{command}' to {} was answered with: {begin}", socket.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn answering(
        answer: &'static [u8],
    ) -> (tempfile::TempDir, std::path::PathBuf, std::thread::JoinHandle<Vec<u8>>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("osd.0.asok");
        let listener = UnixListener::bind(&path).unwrap();
        let daemon = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && byte[0] != 0 {
                asked.push(byte[0]);
            }
            stream.write_all(&(answer.len() as u32).to_be_bytes()).unwrap();
            stream.write_all(answer).unwrap();
            asked
        });
        (folder, path, daemon)
    }

    #[test]
    fn a_command_is_answered_with_json() {
        let (_folder, path, daemon) = answering(br#"{"state":"active"}"#);
        assert_eq!(ask(&path, "status").unwrap()["state"], "active");
        let asked: Value = serde_json::from_slice(&daemon.join().unwrap()).unwrap();
        assert_eq!(asked["prefix"], "status");
    }

    #[test]
    fn an_answer_that_is_no_json_is_shown() {
        let (_folder, path, _daemon) = answering(b"not using tcmalloc!");
        let error = format!("{:#}", ask(&path, "heap").unwrap_err());
        assert!(error.contains("not using tcmalloc!"), "{error}");
    }

    #[test]
    fn a_daemon_that_is_gone_is_named() {
        let error = format!("{:#}", ask(Path::new("/nowhere/osd.7.asok"), "status").unwrap_err());
        assert!(error.contains("osd.7.asok") && error.contains("status"), "{error}");
    }
}
