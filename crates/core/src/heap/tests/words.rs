//! Last words: when they are written, by whom, and what becomes of a place that cannot be written.

use super::janitor::{MIB, alone, fill, free};
use crate::heap::{Heap, Hooks};
use crate::options::{OptionId, PATH_BYTES};
use crate::os::Os;
use crate::os::fake::{Fake, Request};
use core::sync::atomic::Ordering::Relaxed;
use std::fs;
use std::path::{Path, PathBuf};

const END: &str = "# end of the last words\n";

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("vcmalloc-words-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn aim(heap: &Heap<Fake>, path: &Path) {
    heap.set_option(b"last_words", path.to_str().unwrap().as_bytes()).unwrap();
}

/// Some slow path.
fn come_by(heap: &Heap<Fake>) {
    heap.free(heap.allocate(1 << 20));
}

/// The words said; empty if none were. Gone then, to see whether they are said again.
fn taken(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let _ = fs::remove_file(file);
    assert!(text.is_empty() || text.starts_with("heap profile: ") && text.ends_with(END), "{text}");
    text
}

#[test]
fn a_refusal_of_the_hard_limit_is_written_once_and_refuses_as_before() {
    let (heap, folder) = (alone(), Folder::new("refused"));
    let file = folder.file("words");
    heap.set_option(b"hard_limit", b"16M").unwrap();
    aim(&heap, &file);
    assert_eq!(heap.allocate(32 * MIB), 0);
    let text = taken(&file);
    assert!(text.contains("# last words of ") && text.contains(": hard_limit refused memory\n"), "{text}");
    assert!(
        text.contains("\n#   live, as requested  ") && text.contains("\n# hard_limit: 16777216\n"),
        "{text}"
    );
    assert!(text.contains("no call sites"), "{text}");
    (0..100).for_each(|_| assert_eq!(heap.allocate(32 * MIB), 0));
    (0..100_000).for_each(|_| _ = heap.allocate(1000));
    assert_eq!((heap.allocate(1000), taken(&file)), (0, String::new()));
    assert_eq!(folder.names(), [""; 0], "nothing else is left");
    aim(&heap, &file);
    assert_eq!(heap.allocate_zeroed(1, 32 * MIB), 0);
    assert_ne!(taken(&file), "", "set anew it begins anew");
}

#[test]
fn what_the_system_refuses_and_what_is_granted_after_all_is_no_reason() {
    let (heap, folder) = (alone(), Folder::new("granted"));
    let file = folder.file("words");
    aim(&heap, &file);
    come_by(&heap);
    heap.os().refuse_after(Request::MapAt, 0);
    assert_eq!(heap.allocate(64 * MIB), 0);
    heap.os().grant(Request::MapAt);
    heap.set_option(b"hard_limit", b"16M").unwrap();
    heap.set_option(b"retain", b"1G").unwrap();
    let blocks = fill(&heap, 14, MIB);
    free(&heap, blocks);
    free(&heap, fill(&heap, 3, 4 * MIB));
    assert_eq!(taken(&file), "");
}

/// A heap that knows its group: so much of its limit is in use.
fn heap_in_group(limit: usize, in_use: usize) -> Box<Heap<Fake>> {
    let heap = alone();
    heap.os().group_limit.store(limit, Relaxed);
    heap.os().group_in_use.store(in_use, Relaxed);
    heap
}

#[test]
fn a_tick_that_finds_the_group_nearly_full_has_it_written_once() {
    let (heap, folder) = (heap_in_group(100 * MIB, 90 * MIB), Folder::new("near"));
    let file = folder.file("words");
    aim(&heap, &file);
    come_by(&heap);
    let look = || {
        (0..2).for_each(|_| heap.tick(true));
        come_by(&heap);
        taken(&file)
    };
    assert_eq!(look(), "");
    assert!(heap.upkeep.words.are_near(), "the janitor stays awake");
    heap.os().group_in_use.store(99 * MIB, Relaxed);
    heap.os().group_cache.store(20 * MIB, Relaxed);
    assert_eq!(look(), "", "what the group could give up is free");
    heap.os().group_cache.store(0, Relaxed);
    let text = look();
    assert!(text.contains(": the control group is 98% full\n"), "{text}");
    assert!(text.contains(&format!("\n# control group, in use: {}\n", 99 * MIB)), "{text}");
    assert_eq!((look(), heap.upkeep.words.are_near()), (String::new(), false));
}

#[test]
fn a_heap_that_fills_its_group_between_two_ticks_is_seen_while_it_grows() {
    let (heap, folder) = (heap_in_group(100 * MIB, 10 * MIB), Folder::new("grows"));
    let file = folder.file("words");
    aim(&heap, &file);
    come_by(&heap);
    heap.set_option(b"memory_limit", b"0").unwrap();
    fill(&heap, 80, MIB);
    assert_eq!(taken(&file), "");
    heap.os().group_in_use.store(99 * MIB, Relaxed);
    heap.os().own_memory.store(90 * MIB, Relaxed);
    assert_eq!(taken(&file), "", "no tick, no growth");
    fill(&heap, 20, MIB);
    assert!(taken(&file).contains(": the control group is 98% full\n"));
    fill(&heap, 10, MIB);
    assert_eq!(taken(&file), "");
}

#[test]
fn one_block_that_would_fill_the_group_is_seen_before_it_is_written_to() {
    let (heap, folder) = (heap_in_group(100 * MIB, 10 * MIB), Folder::new("ahead"));
    let file = folder.file("words");
    aim(&heap, &file);
    heap.set_option(b"memory_limit", b"0").unwrap();
    fill(&heap, 8, MIB);
    heap.os().own_memory.store(8 * MIB, Relaxed);
    assert_ne!(heap.allocate(60 * MIB), 0);
    assert_eq!(taken(&file), "", "there is room for it");
    assert_ne!(heap.allocate(60 * MIB), 0);
    assert!(taken(&file).contains(": what the heap has taken would fill the control group\n"));
    assert_ne!(heap.allocate(60 * MIB), 0);
    assert_eq!(taken(&file), "");
    heap.os().group_in_use.store(99 * MIB, Relaxed);
    (0..2).for_each(|_| heap.tick(true));
    come_by(&heap);
    assert!(taken(&file).contains(": the control group is 98% full\n"), "the end itself is another reason");
}

#[test]
fn without_the_option_nobody_looks() {
    let heap = heap_in_group(100 * MIB, 99 * MIB);
    heap.set_option(b"hard_limit", b"16M").unwrap();
    come_by(&heap);
    heap.tick(true);
    assert_eq!(heap.allocate(32 * MIB), 0);
    assert!(!heap.upkeep.words.are_due() && !heap.upkeep.words.are_near());
    assert_eq!(heap.os().asked(Request::WriteFile), 0);
}

fn refuse(heap: &Heap<Fake>) {
    heap.set_option(b"hard_limit", b"16M").unwrap();
    assert_eq!(heap.allocate(32 * MIB), 0);
}

#[test]
fn the_path_names_the_process_and_its_program() {
    let (heap, folder) = (alone(), Folder::new("names"));
    aim(&heap, &folder.file("%e-%p-%%.words"));
    refuse(&heap);
    assert_eq!(folder.names(), [format!("fake-{}-%.words", std::process::id())]);
}

#[test]
fn a_file_is_replaced_and_nothing_else_is() {
    let (heap, folder) = (alone(), Folder::new("others"));
    fs::write(folder.file("old"), "old words").unwrap();
    aim(&heap, &folder.file("old"));
    refuse(&heap);
    assert!(taken(&folder.file("old")).starts_with("heap profile: "));
    std::os::unix::fs::symlink(folder.file("elsewhere"), folder.file("link")).unwrap();
    fs::create_dir(folder.file("folder")).unwrap();
    for name in ["link", "folder", "no/such"] {
        aim(&heap, &folder.file(name));
        let before = heap.os().said.load(Relaxed);
        refuse(&heap);
        come_by(&heap);
        assert!(heap.os().said.load(Relaxed) > before, "{name}");
    }
    assert_eq!(folder.names(), ["folder", "link"]);
}

#[test]
fn a_full_disk_is_told_in_one_line_and_not_tried_again() {
    let (heap, folder) = (alone(), Folder::new("full"));
    let file = folder.file("words");
    fs::write(&file, "old words").unwrap();
    aim(&heap, &file);
    heap.os().refuse_after(Request::WriteFile, 0);
    (0..20).for_each(|_| refuse(&heap));
    assert_eq!(heap.os().asked(Request::WriteFile), 1);
    let line = format!("vcmalloc: last_words: {} cannot be written: error 28\n", file.display());
    assert_eq!(heap.os().said.load(Relaxed), line.len());
    assert_eq!(fs::read_to_string(&file).unwrap(), "old words");
    assert_ne!(heap.allocate(MIB), 0, "the heap works");
}

#[test]
fn call_sites_stand_in_it_where_the_profile_is_on() {
    let hooks = Hooks { before_guards: Some(|| ()), unwind: |_| 0 };
    let (heap, folder) = (Box::new(Heap::with_hooks(Fake::default(), hooks)), Folder::new("sites"));
    let file = folder.file("words");
    assert!(heap.start_profile(1));
    fill(&heap, 5, MIB);
    aim(&heap, &file);
    refuse(&heap);
    let text = taken(&file);
    assert!(text.starts_with("heap profile: 5: 5242880 [5: 5242880] @ heapprofile\n# last words"), "{text}");
    assert!(text.contains("\n5: 5242880 [5: 5242880] @ 0x400000 0x400001 0x400002\n"), "{text}");
    assert!(text.contains("\nMAPPED_LIBRARIES:\n"), "{text}");
    heap.stop_profile();
    aim(&heap, &file);
    refuse(&heap);
    let text = taken(&file);
    assert!(text.starts_with("heap profile: 0: 0 [0: 0] @ heapprofile\n"), "{text}");
    assert!(text.contains("# no call sites: profile is off") && !text.contains("@ 0x"), "{text}");
}

#[test]
fn a_handler_inside_the_heap_leaves_it_to_the_thread_that_it_interrupted() {
    let (heap, folder) = (alone(), Folder::new("handler"));
    let file = folder.file("words");
    aim(&heap, &file);
    heap.set_option(b"hard_limit", b"16M").unwrap();
    come_by(&heap);
    let entry = heap.enter_for_test();
    let below = &heap.floors;
    assert!(heap.large.allocate(&heap.os, &heap.pages, 32 * MIB, 16).is_none());
    heap.upkeep.note_refusal(below);
    come_by(&heap);
    assert_eq!(taken(&file), "");
    drop(entry);
    come_by(&heap);
    assert_ne!(taken(&file), "");
}

#[test]
fn a_child_says_its_own() {
    let (heap, folder) = (alone(), Folder::new("child"));
    let file = folder.file("words");
    aim(&heap, &file);
    refuse(&heap);
    assert_ne!(taken(&file), "");
    assert!(heap.upkeep.words.begin(), "a thread that stays in the parent is at it");
    // SAFETY: no other thread uses this heap.
    unsafe { heap.engine.repair(&*heap, true) };
    refuse(&heap);
    assert_ne!(taken(&file), "");
}

#[test]
fn a_process_that_gained_rights_has_no_path() {
    let mut os = Fake::default();
    os.variables = &[("VCM_LAST_WORDS", "/tmp/words")];
    os.privileged = true;
    let heap = Box::new(Heap::new(os));
    come_by(&heap);
    assert_eq!(heap.options.path(OptionId::last_words, &mut [0; PATH_BYTES]), None);
}

#[test]
fn the_janitor_writes_and_who_was_refused_waits() {
    let (heap, folder) = (alone(), Folder::new("janitor"));
    let file = folder.file("words");
    heap.set_option(b"release_delay", b"1h").unwrap();
    aim(&heap, &file);
    heap.set_option(b"hard_limit", b"16M").unwrap();
    come_by(&heap);
    assert!(heap.claim_janitor());
    std::thread::scope(|scope| {
        scope.spawn(|| heap.run_janitor(true));
        while !heap.upkeep.thread.has_aside() {
            std::thread::yield_now();
        }
        let refused: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (heap.allocate(32 * MIB), heap.os().asked(Request::WriteFile))))
            .collect();
        for thread in refused {
            // There when it returns: the next thread that is refused ends the process.
            assert_eq!(thread.join().unwrap(), (0, 1));
        }
        assert_ne!(taken(&file), "");
        heap.stop_janitor();
    });
}

#[test]
fn who_waits_for_a_janitor_that_does_not_come_goes_on() {
    let (heap, folder) = (alone(), Folder::new("stopped"));
    let file = folder.file("words");
    aim(&heap, &file);
    heap.set_option(b"hard_limit", b"16M").unwrap();
    come_by(&heap);
    // A janitor that somebody stopped.
    std::thread::scope(|scope| _ = scope.spawn(|| heap.upkeep.thread.set_aside(true)).join());
    assert_eq!(heap.allocate(32 * MIB), 0);
    assert!(heap.upkeep.words.are_due() && !heap.upkeep.words.concern_program(), "nobody waits again");
    assert_eq!(heap.os().asked(Request::WriteFile), 0);
    heap.speak();
    assert_ne!(taken(&file), "", "it is late");
}

#[test]
fn nothing_is_allocated_for_it() {
    let (heap, folder) = (alone(), Folder::new("memory"));
    aim(&heap, &folder.file("words"));
    come_by(&heap);
    heap.set_option(b"hard_limit", b"16M").unwrap();
    assert_eq!(heap.allocate(32 * MIB), 0);
    let os = heap.os();
    let asked =
        || [Request::MapAt, Request::Map, Request::Reserve, Request::Commit].map(|kind| os.asked(kind));
    let before = asked();
    heap.write_last_words(crate::upkeep::REFUSED).unwrap();
    assert_eq!(asked(), before);
    assert!(heap.os().process_number() > 0);
}
