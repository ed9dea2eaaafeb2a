//! The right to ask: a client shows it by the token that lies in a file.

use constant_time_eq::constant_time_eq;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use vcm_foreign::{Shown, file};

const LEAST: usize = 16;
const MOST: usize = 4096;

#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    pub fn read(path: &Path) -> Result<Token, String> {
        let name = path.shown();
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let mut file = file::open(path).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        // Root's group may read it: systemd gives a service its credentials that way.
        let forbidden = if facts.gid() == 0 { 0o027 } else { 0o077 };
        if facts.mode() & forbidden != 0 {
            return Err(format!(
                "{name}: other users may access it (mode {:03o}); run 'chmod 600 {name}'",
                facts.mode() & 0o777
            ));
        }
        let mut bytes = Vec::new();
        file.by_ref().take(MOST as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        let token = bytes.trim_ascii();
        let is_sent = |byte: &u8| byte.is_ascii_graphic();
        if token.len() < LEAST || token.len() > MOST || !token.iter().all(is_sent) {
            return Err(format!(
                "{name}: a token has {LEAST} to {MOST} letters, digits and signs on one line; 'openssl rand -hex 32' makes one"
            ));
        }
        Ok(Token(token.to_vec()))
    }

    /// Whether the value of a header `Authorization` has it. How long that takes does not tell how much of it is right.
    pub fn is_in(&self, authorization: &[u8]) -> bool {
        let Some((scheme, given)) = authorization.split_at_checked(7) else { return false };
        scheme.eq_ignore_ascii_case(b"bearer ") && constant_time_eq(given.trim_ascii(), &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_whole_token_is_right() {
        let token = Token(b"0123456789abcdef".to_vec());
        assert!(token.is_in(b"Bearer 0123456789abcdef"));
        assert!(token.is_in(b"bearer  0123456789abcdef"));
        let wrong =
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Basic 0123456789abcdef", "0123456789abcdef"];
        assert!(wrong.iter().all(|line| !token.is_in(line.as_bytes())));
    }

    #[test]
    fn a_token_that_others_may_read_or_that_is_short_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path)
        };
        assert!(read("0123456789abcdef\n", 0o600).is_ok_and(|token| token.is_in(b"Bearer 0123456789abcdef")));
        for mode in [0o604, 0o620, 0o666] {
            assert!(read("0123456789abcdef\n", mode).err().unwrap().contains("chmod 600"));
        }
        for text in ["", "0123456789abcde", "0123456789 abcdef", "0123456789abcdef\nx"] {
            assert!(read(text, 0o600).err().unwrap().contains("openssl"), "{text}");
        }
        assert!(Token::read(folder.path()).err().unwrap().contains("directory"));
    }
}
