//! `vcm trace`: import, info, cut, dump, and what it says of files that are none.

mod support;

use std::path::Path;
use support::{Done, done, text, vcm};

/// An `.art` of one thread on a clock of 16 MHz: a block that stays, and a hundred that live for a microsecond.
fn art() -> Vec<u8> {
    let lines = (0..100u32).flat_map(|_| [(1u32, 64u32, 1u8, 10u32), (1, 64, 2, 1)]);
    let lines: Vec<_> = [(0, 4096, 1, 5)].into_iter().chain(lines).collect();
    let mut bytes = b"ART1\x01\0\0\0".to_vec();
    for number in [lines.len() as u64, 2, 16e6f64.to_bits(), 1] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(b"worker\0\0\0\0\0\0\0\0\0\0");
    for (slot, size, operation, dt) in lines {
        bytes.extend([slot.to_le_bytes(), size.to_le_bytes()].concat());
        bytes.extend([0, 0, operation, 0]);
        bytes.extend(dt.to_le_bytes());
    }
    bytes
}

fn trace(arguments: &[&str]) -> Done {
    done(&mut vcm(&[&["trace"], arguments].concat()))
}

fn imported(folder: &Path) -> String {
    let (source, target) = (folder.join("small.art"), folder.join("small.vct"));
    std::fs::write(&source, art()).unwrap();
    let import = trace(&["import", text(&source), "-o", text(&target)]);
    assert_eq!(import.code, Some(0), "{}", import.err);
    assert!(import.err.contains("202 events"), "{}", import.err);
    text(&target).to_string()
}

#[test]
fn what_was_imported_is_shown_in_figures_lines_and_parts() {
    let folder = tempfile::tempdir().unwrap();
    let file = imported(folder.path());

    let info = trace(&["info", &file]);
    assert_eq!((info.code, info.err.as_str()), (Some(0), ""));
    for row in ["allocations           101", "frees                 100", "threads               1"] {
        assert!(info.out.contains(row), "{row} is not in\n{}", info.out);
    }
    let json = trace(&["info", &file, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["summary"]["live_bytes_at_end"], 4096);
    assert!(json["header"]["imported_from"].as_str().unwrap().ends_with("small.art"));

    let dump = trace(&["dump", &file, "--limit", "3"]);
    let lines: Vec<_> = dump.out.lines().map(|line| line.split_once("      1  ").unwrap().1).collect();
    assert_eq!(lines, ["name worker", "malloc 4096 -> 1.0", "malloc 64 -> 1.1"]);

    let part = folder.path().join("part.vct");
    let cut = trace(&["cut", &file, "--from", "500us", "--for", "200us", "-o", text(&part)]);
    assert_eq!(cut.code, Some(0), "{}", cut.err);
    let info = trace(&["info", text(&part), "--json"]);
    let info: serde_json::Value = serde_json::from_str(&info.out).unwrap();
    // The part may end within the microsecond for which a small block lives.
    let live = info["summary"]["live_bytes_at_end"].as_u64().unwrap();
    assert!(info["summary"]["unknown"] == 0 && (live == 4096 || live == 4160), "{info}");
}

#[test]
fn a_page_is_written_whole_or_not_at_all_and_never_over_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = imported(folder.path());
    let page = folder.path().join("page.html");
    for verb in [&["trace", "info"][..], &["bounds"]] {
        std::fs::write(&page, "before").unwrap();
        let written = done(vcm(verb).args([&file, "--html", text(&page)]));
        assert_eq!(written.code, Some(0), "{}", written.err);
        assert!(
            written.err.contains("page.html") && !written.out.is_empty(),
            "{}{}",
            written.out,
            written.err
        );
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"), "{html}");
        assert!(html.contains("4.0 KiB") || html.contains("4.00 KiB"), "{html}");

        let bytes = std::fs::read(&file).unwrap();
        let refused = done(vcm(verb).args([&file, "--html", &file]));
        assert_eq!(refused.code, Some(1), "{}", refused.err);
        assert!(refused.err.contains("output and input are the same file"), "{}", refused.err);
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
        let nowhere = done(vcm(verb).args([&file, "--html", "/no/such/folder/page.html"]));
        assert_eq!(
            (nowhere.code, nowhere.out.as_str()),
            (Some(1), ""),
            "before anything is done: {}",
            nowhere.err
        );

        std::fs::write(&page, "before").unwrap();
        std::fs::write(folder.path().join("text.vct"), "no trace").unwrap();
        let text_file = folder.path().join("text.vct");
        let wrong = done(vcm(verb).args([text(&text_file), "--html", text(&page)]));
        assert_eq!(wrong.code, Some(1), "{}", wrong.err);
        assert_eq!(std::fs::read_to_string(&page).unwrap(), "before");
    }
    let left = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn packed_sources_are_read_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("s"), folder.path().join("t.vct"));
    for packed in [zstd::encode_all(&art()[..], 1).unwrap(), lz4(&art())] {
        std::fs::write(&source, packed).unwrap();
        let import = trace(&["import", text(&source), "-o", text(&target)]);
        assert_eq!(import.code, Some(0), "{}", import.err);
    }
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn files_that_are_no_traces_are_named_with_the_reason_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = imported(folder.path());
    let whole = std::fs::read(&file).unwrap();
    let other = folder.path().join("other.vct");
    let refused = |bytes: &[u8], verb: &[&str]| {
        std::fs::write(&other, bytes).unwrap();
        let refused = trace(&[&[verb[0], text(&other)], &verb[1..]].concat());
        assert_eq!(refused.code, Some(1), "{}", refused.out);
        assert!(refused.err.starts_with(&format!("vcm: {}: ", other.display())), "{}", refused.err);
        refused
    };
    assert!(refused(b"#!/bin/sh", &["info"]).err.contains("is not a trace"));
    let future = [&whole[..8], &[9], &whole[9..]].concat();
    assert!(refused(&future, &["info"]).err.contains("version 9"));
    let mut damaged = whole.clone();
    damaged[whole.len() - 60] ^= 1;
    assert!(refused(&damaged, &["dump"]).err.contains("damaged"));
    let cut = refused(&whole[..whole.len() - 40], &["info"]);
    assert!(
        cut.err.contains("cut off") && cut.out.contains("allocations           101"),
        "{}{}",
        cut.err,
        cut.out
    );

    let target = folder.path().join("new.vct");
    refused(&art()[..500], &["import", "-o", text(&target)]);
    let missing = trace(&["info", "/no/such/file"]);
    assert_eq!((missing.code, missing.err.contains("/no/such/file")), (Some(1), true));
    let itself = trace(&["cut", &file, "-o", &file]);
    assert!(
        itself.code == Some(1) && itself.err.contains("output and input are the same file"),
        "{}",
        itself.err
    );
    assert_eq!(std::fs::read(&file).unwrap(), whole);
    let mut left: Vec<_> = folder
        .path()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["other.vct", "small.art", "small.vct"]);
    assert_eq!(trace(&["cut", &file, "--for", "0s", "-o", text(&target)]).code, Some(2));
    assert_eq!(trace(&["dump", &file, "--from", "soon"]).code, Some(2));
}

#[test]
fn the_least_memory_of_a_trace_is_shown_and_what_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = imported(folder.path());
    let shown = done(&mut vcm(&["bounds", &file]));
    assert_eq!((shown.code, shown.err.as_str()), (Some(0), ""));
    for row in ["live bytes", "classes, lowest place first", "glibc's rules, one arena"] {
        assert!(shown.out.contains(row), "{row} is not in\n{}", shown.out);
    }
    let json = done(&mut vcm(&["bounds", &file, "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["events"], &json["live"]["end"]), (&202.into(), &4096.into()));
    for (name, bytes, words) in
        [("none", &b"no trace"[..], "it is not a trace"), ("empty", b"", "it is not a trace")]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let refused = done(&mut vcm(&["bounds", text(&path)]));
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
        assert!(refused.err.contains(words) && refused.err.lines().count() == 1, "{}", refused.err);
    }
    assert_eq!(done(&mut vcm(&["bounds"])).code, Some(2));
}
