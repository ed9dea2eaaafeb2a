//! A trace's tenants on the built library: `vcm replay --tenants` gives each a heap, and ends it where the trace frees.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use vcm_trace::{Event, Header, Object, Writer};
use vcmalloc_tests::library;

const TENANTS: u64 = 3;
const BLOCKS: u64 = 500;
const BYTES: u64 = 3000;
/// Of the thread that makes them all, beside the tenants.
const KEPT: u64 = 100 * BYTES;

/// One thread makes blocks of three tenants in turn and a hundred that stay; three later ones free a tenant each. One block
/// of the first is made larger on its way, and another thread's block lies between its frees.
fn trace(folder: &Path) -> PathBuf {
    let path = folder.join("tenants.vct");
    let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), &Header::default()).unwrap();
    let mut event = |stream, now, event: Event| writer.event(stream, now, &event).unwrap();
    let object = |stream, ordinal| Object { stream, ordinal };
    for number in 0..BLOCKS * TENANTS {
        event(1, number * 1000, Event::Malloc { bytes: BYTES });
    }
    for _ in 0..100 {
        event(1, 2_000_000, Event::Calloc { bytes: BYTES });
    }
    event(1, 2_000_000, Event::Realloc { from: object(1, 0), bytes: 2 * BYTES });
    let moved = object(1, BLOCKS * TENANTS + 100);
    for tenant in 0..TENANTS {
        let (stream, now) = (tenant as u32 + 2, 100_000_000 * (tenant + 1));
        event(stream, now, Event::Malloc { bytes: 64 });
        for number in (0..BLOCKS).map(|block| block * TENANTS + tenant) {
            let block = if number == 0 { moved } else { object(1, number) };
            event(stream, now, Event::Free { object: block });
        }
        event(stream, now, Event::Free { object: object(stream, 0) });
    }
    event(1, 500_000_000, Event::Malloc { bytes: 64 });
    writer.finish().unwrap();
    path
}

fn replay(trace: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(library::tool().unwrap());
    command.arg("replay").arg(trace).args(["--repeat", "1"]).args(words);
    command.arg("--library").arg(library::shared().unwrap());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), if text[0].is_empty() { text[1].clone() } else { text[0].clone() })
}

#[test]
fn tenants_of_a_trace_end_with_their_heaps_which_have_their_blocks_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let (code, text) = replay(&trace, &["--tenants", "--paced", "--allocators", "vcmalloc", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let json: Value = serde_json::from_str(&text).unwrap();
    let found = json["tenants"].as_array().unwrap();
    let bytes: Vec<u64> = found.iter().map(|tenant| tenant["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [(BLOCKS + 1) * BYTES, BLOCKS * BYTES, BLOCKS * BYTES]);
    let arms = json["allocators"].as_array().unwrap();
    let names: Vec<&str> = arms.iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["vcmalloc", "vcmalloc with heaps"]);
    for arm in arms {
        let ends = arm["ends"]["0"].as_array().unwrap();
        assert_eq!(ends.len() as u64, TENANTS, "{arm:#}");
        // After each end as much is live as the trace has then.
        let course = arm["course"].as_array().unwrap();
        let live = |moment: &Value| moment[1].as_u64().unwrap();
        assert_eq!(live(course.last().unwrap()), KEPT + 64);
        let between = KEPT + BLOCKS * BYTES;
        assert!(course.iter().any(|moment| live(moment).abs_diff(between) <= 128), "{course:?}");
    }
    for (end, bytes) in arms[1]["ends"]["0"].as_array().unwrap().iter().zip(bytes) {
        // Blocks of 3,000 bytes take 3,072; the heap has all of them and no other.
        let live = end["heap"][0].as_u64().unwrap();
        assert!((bytes..bytes + bytes / 10).contains(&live), "{end} of {bytes}");
    }
    assert!(arms[0]["ends"]["0"][0]["heap"].is_null());
}

#[test]
fn a_trace_without_tenants_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.vct");
    let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), &Header::default()).unwrap();
    for ordinal in 0..1000 {
        writer.event(1, ordinal, &Event::Malloc { bytes: 1000 }).unwrap();
        writer.event(1, ordinal, &Event::Free { object: Object { stream: 1, ordinal } }).unwrap();
    }
    writer.finish().unwrap();
    let (code, text) = replay(&path, &["--tenants", "--allocators", "glibc"]);
    assert!(code == Some(1) && text.contains("it has no tenants"), "{text}");
}
