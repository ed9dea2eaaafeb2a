use super::*;
use crate::base::stack::Stack;
use crate::os::fake::{Fake, Request};
use core::sync::atomic::Ordering::Relaxed;

fn stack(first: usize) -> Stack {
    Stack::taken_by(|frames| {
        frames[0] = first;
        frames[1] = 0x1000;
        2
    })
}

fn whole(bytes: usize) -> Size {
    Size { bytes, counted: bytes }
}

#[test]
fn a_sample_is_known_from_its_allocation_to_its_free() {
    let (os, profile) = (Fake::default(), Profile::<Fake>::new());
    assert!(!profile.add(&os, 0x1000, whole(10), &stack(1)), "nothing is written down before the start");
    assert!(profile.start(&os, 1));
    os.clock.store(77, Relaxed);
    assert!(
        profile.add(&os, 0x1000, whole(100), &stack(1)) && profile.add(&os, 0x2000, whole(200), &stack(2))
    );
    let mut seen = Vec::new();
    profile.each_live(
        |look| look(),
        |sample| seen.push((sample.address, sample.bytes, sample.weight, sample.stack.to_vec())),
    );
    assert_eq!(seen, [(0x1000, 100, 100, vec![1, 0x1000]), (0x2000, 200, 200, vec![2, 0x1000])]);
    profile.remove(0x1000);
    profile.remove(0x3000);
    let stats = profile.stats();
    assert_eq!((stats.live_samples, stats.live_bytes, stats.allocated_bytes), (1, 200, 300));
    profile.stop();
    profile.remove(0x2000);
    assert_eq!(profile.stats().live_samples, 1, "a stopped profile stands still");
    assert!(profile.start(&os, 1));
    assert_eq!(profile.stats().allocated_bytes, 0, "a new start begins with nothing");
}

#[test]
fn weights_add_up_to_what_was_allocated() {
    let (os, profile) = (Fake::default(), Profile::<Fake>::new());
    let (mean, sizes, rounds) = (64 << 10, [100usize, 3000, 50_000, 1 << 20], 20_000u64);
    profile.start(&os, mean);
    let mut random = 1;
    for round in 0..rounds {
        for (number, bytes) in sizes.into_iter().enumerate() {
            let draw = (crate::base::chance::next_random(&mut random) >> 11) as f64 / (1u64 << 53) as f64;
            if draw < crate::base::chance::sampled_chance(bytes as u64, mean) {
                profile.add(&os, (round as usize * 8 + number + 1) * 16, whole(bytes), &stack(number));
            }
        }
    }
    profile.each_stack(
        |look| look(),
        |of| {
            let bytes = sizes[of.stack.frames()[0]];
            let (objects, total) = (of.allocated.objects() as f64, of.allocated.bytes as f64);
            let error =
                5.0 / (rounds as f64 * crate::base::chance::sampled_chance(bytes as u64, mean)).sqrt();
            assert!((objects / rounds as f64 - 1.0).abs() < error.max(0.001), "{bytes}: {objects} objects");
            assert!(
                (total / (rounds as f64 * bytes as f64) - 1.0).abs() < error.max(0.001),
                "{bytes}: {total} bytes"
            );
        },
    );
}

#[test]
fn a_reader_sees_what_lives_throughout_and_nothing_younger() {
    let (os, profile) = (Fake::default(), Profile::<Fake>::new());
    profile.start(&os, 1);
    (1..=100).for_each(|number| assert!(profile.add(&os, number * 16, whole(1), &stack(number % 3))));
    let mut seen = Vec::new();
    profile.each_live(
        |look| look(),
        |sample| {
            // Meanwhile one in two is freed, and others come in their places.
            if seen.is_empty() {
                (1..=100).filter(|number| number % 2 == 0).for_each(|number| profile.remove(number * 16));
                (0..60).for_each(|number| {
                    assert!(profile.add(&os, 0x10_0000 + number * 16, whole(1), &stack(9)))
                });
            }
            seen.push(sample.address / 16);
        },
    );
    assert!((1..=100).filter(|number| number % 2 == 1).all(|number| seen.contains(&number)));
    assert!(seen.iter().all(|number| *number <= 100), "none that began later");
}

#[test]
fn without_memory_there_is_no_profile_and_full_tables_drop_samples() {
    let (os, profile) = (Fake::default(), Profile::<Fake>::new());
    os.refuse_after(Request::Reserve, 0);
    assert!(!profile.start(&os, 1) && !profile.is_on());
    os.grant(Request::Reserve);
    os.refuse_after(Request::Commit, 3);
    assert!(profile.start(&os, 1), "smaller tables, or those that were granted");
    os.refuse_after(Request::Commit, 0);
    let kept = (1..=3000).filter(|number| profile.add(&os, number * 16, whole(1), &stack(1))).count() as u64;
    let stats = profile.stats();
    assert_eq!((stats.live_samples, stats.dropped), (kept, 3000 - kept));
    assert!(stats.dropped > 0);
}

/// A heap that only grows: the samples stand for all that there is, however many times the interval was doubled.
#[test]
fn a_profile_of_more_blocks_than_it_has_records_for_raises_its_interval_and_stays_right() {
    let (os, profile) = (Fake::default(), Profile::<Fake>::new());
    assert!(profile.start(&os, 1 << 20));
    let (mut drawn, mut random, mut left, mut bytes) = (0usize, 1, 1u64 << 20, 0u64);
    // Of blocks of 4 MiB, until all records but one would be in use at the first interval ten times over.
    while bytes < 10 << 38 {
        bytes += 4 << 20;
        if left > 4 << 20 {
            left -= 4 << 20;
            continue;
        }
        drawn += 1;
        left = crate::base::chance::exponential(
            crate::base::chance::next_random(&mut random),
            profile.interval(),
        );
        assert!(profile.add(&os, drawn * 16, whole(4 << 20), &stack(1)), "sample {drawn} has room");
    }
    let stats = profile.stats();
    assert!(stats.raised >= 2 && stats.interval == 1 << 20 << stats.raised, "{stats:?}");
    let off = stats.live_bytes as f64 / bytes as f64 - 1.0;
    assert!(off.abs() < 0.03, "{off:+.3} of {bytes} bytes");
}

#[test]
fn the_text_has_the_form_that_pprof_reads() {
    let mut os = Fake::default();
    os.file = "00400000-00401000 r-xp 00000000 00:00 0 /bin/x\n";
    let profile = Profile::<Fake>::new();
    profile.start(&os, 1);
    profile.add(&os, 0x1000, whole(100), &stack(0xabc));
    profile.add(&os, 0x2000, whole(50), &stack(0xabc));
    profile.add(&os, 0x3000, whole(7), &stack(0xdef));
    profile.remove(0x2000);
    let mut bytes = [0u8; 1024];
    let mut text = crate::base::text::Buffer::new(&mut bytes);
    profile.put(&os, &mut text, |look| look());
    assert_eq!(
        core::str::from_utf8(text.as_bytes()).unwrap(),
        "heap profile: 2: 107 [3: 157] @ heapprofile\n\
         1: 100 [2: 150] @ 0xabc 0x1000\n\
         1: 7 [1: 7] @ 0xdef 0x1000\n\
         \nMAPPED_LIBRARIES:\n\
         00400000-00401000 r-xp 00000000 00:00 0 /bin/x\n"
    );
}

#[test]
fn each_stack_keeps_what_it_had_when_most_was_in_use() {
    let (os, profile) = (Fake::default(), Profile::<Fake>::new());
    assert!(profile.start(&os, 1));
    // Three stacks that grow and shrink; the first is at its own most later than all are together.
    let mut live = [0_u64; 3];
    let (mut most, mut at_most) = (0, live);
    let mut place = 0x10_000;
    let mut blocks: [Vec<usize>; 3] = Default::default();
    for (of, grown) in [(0, 40), (1, 100), (2, 5), (1, -90), (0, 60), (2, -3), (1, 5), (0, -100)] {
        for _ in 0..i32::abs(grown) {
            if grown > 0 {
                place += 64;
                assert!(profile.add(&os, place, whole(1000), &stack(of)));
                blocks[of].push(place);
                live[of] += 1000;
            } else {
                profile.remove(blocks[of].pop().unwrap());
                live[of] -= 1000;
            }
            if live.iter().sum::<u64>() > most + most / 64 {
                (most, at_most) = (live.iter().sum(), live);
            }
        }
    }
    let (peaks, mut kept) = (profile.peaks(), [0; 3]);
    profile.each_stack(
        |look| look(),
        |of_stack| kept[of_stack.stack.frames()[0]] = of_stack.at_peak(peaks).bytes,
    );
    assert_eq!((kept, most), (at_most, at_most.iter().sum()));
    assert!(most > 140_000, "{most}");
}
