//! A headless Chromium that opens a page and prints what a script in it has found.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use vcmalloc_tests::run;

const LOOK: &str = include_str!("look.js");
const BEGIN: &str = "vcm-found:";
const END: &str = ":vcm-found";

pub struct Browser(PathBuf);

/// A page as it was seen. Its faults are in words; a list is empty where there are none.
#[derive(Debug)]
pub struct Seen {
    pub title: String,
    pub width: u32,
    pub page_width: u32,
    pub is_dark: bool,
    pub charts: u64,
    pub texts: u64,
    pub overlaps: Vec<String>,
    pub cut_off: Vec<String>,
    pub small: Vec<String>,
    pub faint: Vec<String>,
    pub loaded: Vec<String>,
    pub errors: Vec<String>,
    pub nameless: Vec<String>,
}

impl Browser {
    pub fn found() -> Option<Browser> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let path = std::env::var_os("PATH")?;
        let places = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
        places.into_iter().find(|file| file.is_file()).map(Browser)
    }

    /// Looks at a page in a window of a width.
    pub fn look(&self, page: &Path, width: u32, is_dark: bool) -> Seen {
        let found = self.opened(page, LOOK, width, is_dark);
        let lines = |name: &str| -> Vec<String> {
            let lines = found[name].as_array().unwrap_or_else(|| panic!("no {name} in {found}"));
            lines.iter().map(|line| line.as_str().unwrap_or_default().to_owned()).collect()
        };
        let number = |name: &str| found[name].as_u64().unwrap_or_else(|| panic!("no {name} in {found}"));
        Seen {
            title: found["title"].as_str().unwrap_or_default().to_owned(),
            width: number("width") as u32,
            page_width: number("page_width") as u32,
            is_dark: found["is_dark"] == true,
            charts: number("charts"),
            texts: number("texts"),
            overlaps: lines("overlaps"),
            cut_off: lines("cut_off"),
            small: lines("small"),
            faint: lines("faint"),
            loaded: lines("loaded"),
            errors: lines("errors"),
            nameless: lines("nameless"),
        }
    }

    /// The value of an expression in a page; it may have statements before it.
    pub fn asked(&self, page: &Path, script: &str) -> Value {
        let script = serde_json::to_string(script).unwrap().replace('<', "\\u003c");
        self.opened(page, &format!("(0, eval)({script})"), 1400, false)
    }

    /// A window has a least width, which a frame in it has not: the page is shown in a frame. It has the same policy as
    /// before, but that the script here may be run.
    fn opened(&self, page: &Path, script: &str, width: u32, is_dark: bool) -> Value {
        let folder = page.parent().unwrap();
        let text = fs::read_to_string(page).unwrap();
        assert!(text.contains("</body>"), "{} is no page", page.display());
        let errors = "<script>window.vcmErrors = []; \
            addEventListener('error', (event) => vcmErrors.push(event.message)); \
            addEventListener('securitypolicyviolation', (event) => vcmErrors.push('refused: ' + event.blockedURI + ' ' + event.violatedDirective));</script>";
        let told = format!(
            "<script>addEventListener('load', () => setTimeout(() => parent.postMessage(JSON.stringify({script}), '*'), 50));</script>"
        );
        let text = text.replace("script-src 'unsafe-inline'", "script-src 'unsafe-inline' 'unsafe-eval'");
        let text = text.replacen("<title>", &format!("{errors}<title>"), 1);
        let text = text.replacen("</body>", &format!("{told}</body>"), 1);
        let (inner, outer) = (folder.join("inner.html"), folder.join("outer.html"));
        fs::write(&inner, text).unwrap();
        let frame = format!(
            "<!DOCTYPE html><html style=\"color-scheme: light dark\"><body style=\"margin:0\">\
             <iframe src=\"inner.html\" style=\"border:0;width:{width}px;height:1200px;color-scheme: light dark\"></iframe><pre id=\"found\"></pre>\
             <script>addEventListener('message', (event) => \
             document.getElementById('found').textContent = '{BEGIN}' + encodeURIComponent(event.data) + '{END}');</script>"
        );
        fs::write(&outer, frame).unwrap();
        let mut command = Command::new(&self.0);
        let profile = tempfile::tempdir().unwrap();
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]);
        command.args([
            "--disable-background-networking",
            "--hide-scrollbars",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg(format!("--blink-settings=preferredColorScheme={}", if is_dark { 0 } else { 1 }));
        command.arg(format!("--window-size={},1300", width.max(600)));
        command.arg(format!("file://{}", outer.display().to_string().replace(' ', "%20")));
        let done = run(&mut command, Duration::from_secs(120)).unwrap();
        let output = done.text();
        let found = output.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
        let (found, _) = found.unwrap_or_else(|| panic!("nothing found: {output}\n{}", done.complaints));
        serde_json::from_str(&decoded(found)).unwrap()
    }
}

/// `%41` is A.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let hex = (*first == b'%').then(|| behind.get(..2)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &behind[2..]).1,
            None => (bytes.push(*first), rest = behind).1,
        }
    }
    String::from_utf8(bytes).unwrap()
}
