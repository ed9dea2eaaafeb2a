//! Heaps of tenants in `vcm stat` and `vcm profile --heap`.

use super::*;
use std::io::Write;

/// The answer of a verb about a process, where all went well.
fn said(verb: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(library::tool().unwrap_or_else(|error| panic!("{error}")));
    Ground::Glibc.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
    let output = command.arg(verb).args(arguments).output().expect("vcm starts");
    assert!(output.status.success(), "{verb} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn heaps_of_tenants_are_seen_by_name_in_stat_and_profile_until_they_end() {
    for ground in [Ground::Preload, Ground::Locked, Ground::Static] {
        let mut running = Running::start("tenants.c", ground, ON);
        let id = running.id();
        let [refused, live, bytes] = {
            let mut numbers =
                running.line.split_whitespace().map(|word| word.parse::<u64>().expect("a number"));
            [(); 3].map(|()| numbers.next().expect("three numbers"))
        };
        let seen = || {
            let json: serde_json::Value =
                serde_json::from_str(&said("stat", &[&id, "--json"])).expect("JSON");
            let heaps = json["largest_heaps"].as_array().expect("heaps").clone();
            let of = |heap: &serde_json::Value| {
                (heap["name"].as_str().unwrap_or_default().to_owned(), heap.clone())
            };
            heaps.iter().map(of).collect::<std::collections::BTreeMap<_, _>>()
        };
        let heaps = seen();
        let names: Vec<&str> = heaps.keys().map(String::as_str).collect();
        assert_eq!(names, ["late", "orders", "queries"], "{}", ground.name());
        assert_eq!(heaps["queries"]["refused"], refused, "each request is counted once");
        assert!(refused > 0 && heaps["queries"]["bytes"].as_u64().is_some_and(|bytes| bytes <= 1 << 20));
        assert_eq!((&heaps["late"]["draining"], &heaps["orders"]["draining"]), (&1.into(), &0.into()));
        // Outside, blocks in its caches count as live.
        let seen_live = heaps["orders"]["live"].as_u64().expect("a number");
        assert!((live..live + (1 << 20)).contains(&seen_live), "{seen_live} for {live}");
        assert_eq!(heaps["orders"]["bytes"], bytes);
        let page = said("stat", &[&id]);
        assert!(page.contains("heaps of tenants: 3") && page.contains("  late (drains) "), "{page}");
        assert!(page.contains("    20000 blocks left, 0 freed late; "), "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");

        let sites = |name: &str| rows(&table(&[&id, "--heap", name]));
        let orders = sites("orders");
        let found = |name: &str| orders.iter().filter(|site| site.starts_with(name)).count();
        assert_eq!((found("place_orders"), found("index_orders"), orders.len()), (1, 1, 2), "{orders:?}");
        let late = sites("late");
        assert!(
            late.len() == 1 && late[0].starts_with("hold_late"),
            "the call site that still holds blocks: {late:?}"
        );
        let by_thread = table(&[&id, "--heap", "late"]);
        assert!(by_thread.contains(&format!("  by thread {id}\n")), "{by_thread}");
        let none = output(&[&id, "--heap", "nobody"]);
        let complaint = String::from_utf8_lossy(&none.stderr).into_owned();
        assert!(
            complaint.contains("has no heap called 'nobody'; some that it has: late, orders, queries"),
            "{complaint}"
        );
        assert_eq!(none.status.code(), Some(1));

        let mut end_one = || {
            let input = running.child.stdin.as_mut().expect("a pipe");
            input.write_all(b".").and_then(|()| input.flush()).expect("it reads");
        };
        let until = |gone: &str| {
            let is_gone = || !seen().contains_key(gone);
            assert!(
                (0..100).any(|_| is_gone() || {
                    std::thread::sleep(Duration::from_millis(50));
                    false
                }),
                "{gone} ended"
            );
        };
        end_one();
        until("orders");
        let all = rows(&table(&[&id]));
        assert!(all.iter().all(|site| !site.contains("orders")), "their samples went with the heap: {all:?}");
        end_one();
        until("late");
    }
}
