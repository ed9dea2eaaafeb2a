//! The pages of `--html` in a real browser, headless: narrow and wide, on light and on dark ground.
//!
//! A page looks at itself: a script that is appended here measures it and leaves what it found in the page, which
//! Chromium prints. Without Chromium this says so and passes.

#[path = "report/browser.rs"]
mod browser;

use browser::{Browser, Seen};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use vcm_trace::{Event, Header, Object, Writer};
use vcmalloc_tests::{library, run};

/// Words that a user may have typed and a thread may be called.
const NASTY: &str = "</script></style><img src=http://example.invalid/x onerror=document.title=1>\"'&";

/// Three threads that hand blocks to each other, for a second; one of them has a name of no good.
fn trace(folder: &Path) -> PathBuf {
    let path = folder.join("a trace.vct");
    let header = Header { command: vec!["/usr/bin/daemon".into(), NASTY.into()], ..Header::default() };
    let mut writer = Writer::new(File::create(&path).unwrap(), &header).unwrap();
    writer.event(2, 0, &Event::Name { name: NASTY.into() }).unwrap();
    for round in 0..20_000u64 {
        let now = round * 50_000;
        for stream in [1, 2, 3] {
            writer.event(stream, now, &Event::Malloc { bytes: 16 << (round * stream as u64 % 13) }).unwrap();
        }
        if round >= 500 && round % 3 != 0 {
            for (stream, other) in [(1, 2), (2, 1), (3, 3)] {
                writer
                    .event(
                        stream,
                        now,
                        &Event::Free { object: Object { stream: other, ordinal: round - 500 } },
                    )
                    .unwrap();
            }
        }
        if round % 1000 == 0 {
            let memory =
                Event::Memory { resident: (64 << 20) + (round << 13), minor_faults: 0, major_faults: 0 };
            writer.event(0, now, &memory).unwrap();
        }
    }
    writer.finish().unwrap();
    path
}

/// Blocks of three sizes, each of which lives for a time of its own: 300 of 100 bytes for a microsecond or two, 30 of 3000 bytes
/// for 5 ms, and 3 of a MiB to the end.
fn known(folder: &Path) -> PathBuf {
    let path = folder.join("known.vct");
    let header = Header { command: vec!["known".into()], ..Header::default() };
    let mut writer = Writer::new(File::create(&path).unwrap(), &header).unwrap();
    let mut now = 0;
    let mut event = |stream, now, event: &Event| writer.event(stream, now, event).unwrap();
    for _ in 0..3 {
        event(1, now, &Event::Malloc { bytes: 1 << 20 });
    }
    for ordinal in 3..303 {
        event(1, now, &Event::Malloc { bytes: 100 });
        event(1, now, &Event::Free { object: Object { stream: 1, ordinal } });
        now += 1000;
    }
    for _ in 0..30 {
        event(1, now, &Event::Malloc { bytes: 3000 });
    }
    for ordinal in 303..333 {
        event(1, now + 5_000_000, &Event::Free { object: Object { stream: 1, ordinal } });
    }
    writer.finish().unwrap();
    path
}

/// The rows of the table below a chart of a page: labels and values. None where there is no such chart.
fn rows(page: &str, title: &str) -> Option<Vec<(String, f64)>> {
    let (_, chart) = page.split_once(&format!("<figcaption><strong>{title}</strong>"))?;
    let (chart, _) = chart.split_once("</figure>")?;
    let (_, body) = chart.split_once("<tbody>")?;
    let inside =
        |text: &str, from: &str, to: &str| Some(text.split_once(from)?.1.split_once(to)?.0.to_owned());
    let row = |row: &str| {
        let label = inside(row, "<span>", "</span>")?;
        Some((label, inside(row, "data-value=\"", "\"")?.parse().ok()?))
    };
    body.split("<tr ").skip(1).map(row).collect()
}

#[test]
fn the_histograms_of_sizes_and_lives_show_what_the_trace_has() {
    let folder = tempfile::tempdir().unwrap();
    let trace = known(folder.path()).display().to_string();
    let page = |name: &str| folder.path().join(name).display().to_string();
    vcm(folder.path(), &["trace", "info", &trace, "--html", &page("trace.html")]);
    let arms = ["--allocators", "glibc,glibc", "--repeat", "1"];
    vcm(folder.path(), &[&["replay", &trace, "--html", &page("replay.html")][..], &arms].concat());
    for name in ["trace.html", "replay.html"] {
        let page = std::fs::read_to_string(page(name)).unwrap();
        let filled = |title: &str| {
            let rows = rows(&page, title).unwrap_or_else(|| panic!("{name} has no chart of {title}"));
            // From the first to the last without a gap.
            assert!(
                rows.first().is_some_and(|row| row.1 > 0.0) && rows.last().is_some_and(|row| row.1 > 0.0)
            );
            rows.into_iter().filter(|row| row.1 > 0.0).collect::<Vec<_>>()
        };
        let named = |rows: &[(&str, f64)]| -> Vec<(String, f64)> {
            rows.iter().map(|(label, value)| ((*label).to_owned(), *value)).collect()
        };
        assert_eq!(filled("Sizes"), named(&[("≤128", 300.0), ("≤4K", 30.0), ("≤1M", 3.0)]), "{name}");
        let lives = filled("Lifetimes of blocks");
        assert_eq!(lives.last(), named(&[("to the end", 3.0)]).last(), "{name}");
        assert_eq!(lives.iter().map(|row| row.1).sum::<f64>(), 333.0, "{name}: each block once");
        let long: f64 = lives.iter().filter(|row| row.0.ends_with("ms")).map(|row| row.1).sum();
        assert_eq!(long, 30.0, "{name}: {lives:?}");
        // The same trace has the same numbers on a narrow ground: they are drawn twice.
        for class in ["wide", "narrow"] {
            let chart =
                page.split_once("<strong>Sizes</strong>").unwrap().1.split_once("</figure>").unwrap().0;
            let drawn = chart
                .split_once(&format!("<svg class=\"{class}\""))
                .unwrap_or_else(|| panic!("{name}: not {class}"));
            assert!(drawn.1.split_once("</svg>").unwrap().0.contains("≤128: 300"), "{name}, {class}");
        }
    }
}

#[test]
fn a_page_without_blocks_has_no_histograms() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.vct");
    let writer = Writer::new(File::create(&path).unwrap(), &Header::default()).unwrap();
    writer.finish().unwrap();
    let page = folder.path().join("empty.html").display().to_string();
    vcm(folder.path(), &["trace", "info", &path.display().to_string(), "--html", &page]);
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!((rows(&page, "Sizes"), rows(&page, "Lifetimes of blocks")), (None, None));
}

fn vcm(folder: &Path, words: &[&str]) {
    let mut tool = Command::new(library::tool().unwrap());
    tool.args(words).current_dir(folder).env_remove("LD_PRELOAD");
    let done = run(&mut tool, Duration::from_secs(300)).unwrap();
    assert_eq!(done.status.code(), Some(0), "{words:?}: {}", done.complaints);
}

/// A page of each verb, of commands and traces with words that look like markup.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let trace = trace(folder).display().to_string();
    let page = |name: &str| folder.join(name).display().to_string();
    vcm(folder, &["trace", "info", &trace, "--html", &page("trace.html")]);
    vcm(folder, &["bounds", &trace, "--html", &page("bounds.html")]);
    let allocators = ["--allocators", "glibc,glibc,glibc"];
    let rounds = ["--repeat", "2"];
    vcm(folder, &[&["replay", &trace, "--html", &page("replay.html")][..], &allocators, &rounds].concat());
    let script = "echo 'speed: 5'; sleep 0.4; : \"$0\"";
    let command = ["--metric", "speed: ([0-9]+)", "--", "sh", "-c", script, NASTY];
    vcm(
        folder,
        &[&["compare", "--html", &page("compare.html")][..], &allocators, &rounds, &command].concat(),
    );
    ["trace", "bounds", "replay", "compare"].map(|name| folder.join(format!("{name}.html"))).to_vec()
}

#[test]
fn every_page_can_be_read_narrow_and_wide_on_light_and_on_dark_ground() {
    let Some(browser) = Browser::found() else {
        vcmalloc_tests::skip!("there is no chromium here ('apt-get install chromium' brings it)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for page in pages(folder.path()) {
        for width in [380, 1400] {
            for is_dark in [false, true] {
                let seen = browser.look(&page, width, is_dark);
                let place = format!("{} at {width}, dark: {is_dark}", page.file_name().unwrap().display());
                assert_is_readable(&seen, &place, width, is_dark);
            }
        }
    }
}

fn assert_is_readable(seen: &Seen, place: &str, width: u32, is_dark: bool) {
    assert_eq!((seen.width, seen.is_dark), (width, is_dark), "{place}: not as it was asked for");
    assert!(seen.charts > 0 && seen.texts > 20, "{place}: {seen:?}");
    assert_eq!(seen.page_width, width, "{place}: the page is wider than its window");
    for (what, found) in [
        ("texts on each other", &seen.overlaps),
        ("texts beyond their chart", &seen.cut_off),
        ("too small", &seen.small),
        ("too little contrast", &seen.faint),
        ("loaded from elsewhere", &seen.loaded),
        ("errors", &seen.errors),
        ("without a name", &seen.nameless),
    ] {
        assert!(found.is_empty(), "{place}: {what}: {found:#?}");
    }
    assert_ne!(seen.title, "1", "{place}: a word of the user's was run");
}

#[test]
fn what_the_browser_finds_is_found_where_it_is_planted() {
    let Some(browser) = Browser::found() else {
        vcmalloc_tests::skip!("there is no chromium here ('apt-get install chromium' brings it)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("bad.html");
    let bad = r#"<!DOCTYPE html><html style="background:#fff"><title>bad</title><body><main style="width:2000px">
        <figure><svg viewBox="0 0 360 100" width="360"><text x="10" y="20" font-size="13">one</text>
        <text x="12" y="22" font-size="13">two</text><text x="340" y="60" font-size="13">beyond</text>
        <text x="10" y="90" font-size="5">small</text></svg></figure>
        <p style="color:#ccc">faint</p><button></button><img src="http://127.0.0.1:9/x.png"></main></body></html>"#;
    std::fs::write(&page, bad).unwrap();
    let seen = browser.look(&page, 380, false);
    assert!(seen.page_width > 380, "{seen:?}");
    for (found, word) in [
        (&seen.overlaps, "one"),
        (&seen.cut_off, "beyond"),
        (&seen.small, "small"),
        (&seen.faint, "faint"),
        (&seen.loaded, "x.png"),
        (&seen.nameless, "button"),
    ] {
        assert!(found.iter().any(|line| line.contains(word)), "{word}: {seen:#?}");
    }
}

#[test]
fn a_click_sorts_a_table_and_a_key_moves_the_cursor() {
    let Some(browser) = Browser::found() else {
        vcmalloc_tests::skip!("there is no chromium here ('apt-get install chromium' brings it)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path()).display().to_string();
    let page = folder.path().join("trace.html");
    vcm(folder.path(), &["trace", "info", &trace, "--html", &page.display().to_string()]);
    let found = browser.asked(
        &page,
        r#"
        const table = document.querySelector("table.sorts");
        const first = () => table.tBodies[0].rows[0].cells[1].dataset.value;
        const button = table.tHead.rows[0].cells[1].querySelector("button");
        button.click();
        const up = Number(first());
        button.click();
        const down = Number(first());
        const svg = document.querySelector("figure.lines svg.wide");
        svg.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
        const readout = document.querySelector("figure.lines .readout").textContent;
        ({ up, down, readout, cursor: svg.classList.contains("points-at") })
        "#,
    );
    assert!(found["up"].as_f64() <= found["down"].as_f64() && found["down"].as_f64() > Some(0.0), "{found}");
    assert!(found["readout"].as_str().unwrap().contains("live bytes") && found["cursor"] == true, "{found}");
}
