//! The text that gperftools' heap profiler writes: what `google-pprof` reads.

use super::profile::{Measure, Profile};
use std::fmt::Write;

impl Profile {
    /// Already scaled, so that nothing is scaled again; `maps` are the lines of /proc/PID/maps.
    pub fn to_gperftools(&self) -> String {
        let line = |live: super::Amount, allocated: super::Amount| {
            format!(
                "{}: {} [{}: {}] @",
                live.objects.round() as i64,
                live.bytes.round() as i64,
                allocated.objects.round() as i64,
                allocated.bytes.round() as i64
            )
        };
        let mut text = format!(
            "heap profile: {} heapprofile\n",
            line(self.total(Measure::Live), self.total(Measure::Allocated))
        );
        for site in &self.sites {
            text += &line(site.live, site.allocated);
            // It takes one off by itself.
            site.frames.iter().for_each(|frame| _ = write!(text, " {:#x}", frame + 1));
            text += "\n";
        }
        text += "\nMAPPED_LIBRARIES:\n";
        for mapping in self.mappings.iter().filter(|mapping| !mapping.file.is_empty()) {
            let (start, end, offset) = (mapping.start, mapping.end, mapping.offset);
            let _ = writeln!(text, "{start:08x}-{end:08x} r-xp {offset:08x} 00:00 0 {}", mapping.file);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Amount, Mapping, Site};

    #[test]
    fn a_line_for_each_stack_with_return_addresses_and_the_files_behind() {
        let amount = |objects, bytes| Amount { objects, bytes, variance: 0.0 };
        let profile = Profile {
            sites: vec![Site {
                frames: vec![0x10ff, 0x20ff],
                live: amount(1.6, 99.7),
                allocated: amount(3.0, 300.0),
                ..Site::default()
            }],
            mappings: vec![Mapping {
                start: 0x1000,
                end: 0x3000,
                file: "/bin/a".into(),
                ..Mapping::default()
            }],
            ..Profile::default()
        };
        assert_eq!(
            profile.to_gperftools(),
            "heap profile: 2: 100 [3: 300] @ heapprofile\n2: 100 [3: 300] @ 0x1100 0x2100\n\nMAPPED_LIBRARIES:\n\
             00001000-00003000 r-xp 00000000 00:00 0 /bin/a\n"
        );
    }
}
