//! The heap of a process as the kernel sees it.
//!
//! The heap is the sum of `Rss` in /proc/PID/smaps over the mappings that are **anonymous**: inode 0 and no
//! name, or the name `[heap]` (brk), or `[anon:...]` (a name that a program gave). That includes what
//! allocators keep for themselves beside the blocks, and some tens of KiB of zeroed data of libraries, the
//! same under every allocator. It leaves out `[stack]`, files, and shared memory, where the load program has
//! its tables and its thread stacks.
//!
//! That is exact for an idle process. The walk through a process at work is no picture of one moment: pages
//! that move meanwhile count twice (465 MiB were seen in a cgroup that never held more than 328). So for a
//! process at work the heap is `RssAnon` of /proc/PID/status, one number that the kernel keeps. It has a
//! little more in it, the main stack and the written data of libraries: 0.2 MiB, the same under every
//! allocator.

/// Sums in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub heap: u64,
    /// Idle processes only: the part of `heap` that the kernel may take at once: given back with MADV_FREE,
    /// still counted as resident.
    pub heap_lazy: u64,
    /// Idle processes only: the part of `heap` in huge pages.
    pub heap_huge: u64,
    /// Everything that is resident.
    pub total: u64,
}

/// Adds up the text of a smaps file. Lines that are not understood count nothing.
pub fn parse(text: &str) -> Memory {
    let mut memory = Memory::default();
    let mut in_heap = false;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        let Some(field) = first.strip_suffix(':') else {
            // start-end access offset device inode [name]
            let mut rest = words.skip(3);
            in_heap = rest.next() == Some("0") && rest.next().is_none_or(is_heap_name);
            continue;
        };
        let bytes = words.next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024;
        match field {
            "Rss" => {
                memory.total += bytes;
                memory.heap += if in_heap { bytes } else { 0 };
            }
            "LazyFree" if in_heap => memory.heap_lazy += bytes,
            "AnonHugePages" if in_heap => memory.heap_huge += bytes,
            _ => {}
        }
    }
    memory
}

fn is_heap_name(name: &str) -> bool {
    name == "[heap]" || name.starts_with("[anon:")
}

/// Adds up the text of a status file.
pub fn parse_status(text: &str) -> Memory {
    let bytes = |field: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    Memory { heap: bytes("RssAnon"), total: bytes("VmRSS"), ..Memory::default() }
}

/// Of a process that is idle. Zeroes if it has ended: a process without memory.
pub fn of_idle_process(process: u32) -> Memory {
    parse(&std::fs::read_to_string(format!("/proc/{process}/smaps")).unwrap_or_default())
}

/// Of a process whose memory changes at this moment. Zeroes if it has ended.
pub fn of_working_process(process: u32) -> Memory {
    parse_status(&std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default())
}

/// The page faults and CPU time of a process since it began, all threads together, ended ones too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Page faults that needed no disk.
    pub faults: u64,
    pub cpu_seconds: f64,
}

/// Reads the text of a stat file.
pub fn parse_stat(text: &str, ticks_per_second: f64) -> Used {
    // The second field is the program's name in parentheses, and may contain anything.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |number: usize| -> u64 {
        let found = after_name.split_ascii_whitespace().nth(number - 3);
        found.and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    Used { faults: field(10), cpu_seconds: (field(14) + field(15)) as f64 / ticks_per_second }
}

/// Zeroes if the process has ended.
pub fn used_by(process: u32) -> Used {
    // SAFETY: asks for a number.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    parse_stat(&std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default(), ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(line: &str, rss: u64, lazy: u64, huge: u64) -> String {
        format!(
            "{line}\nSize: 9000 kB\nRss: {rss} kB\nPss: 1 kB\nLazyFree: {lazy} kB\nAnonHugePages: {huge} kB\n\
             VmFlags: rd wr mr mw me ac\n"
        )
    }

    #[test]
    fn anonymous_memory_and_brk_are_the_heap_and_nothing_else_is() {
        let text = [
            mapping("55d0c000-55d0e000 r-xp 00001000 fe:00 1234   /usr/bin/thing", 1, 0, 0),
            mapping("55d1c000-55d1e000 rw-p 00000000 00:00 0      [heap]", 2, 0, 0),
            mapping("7f00c000-7f00e000 rw-p 00000000 00:00 0", 4, 3, 2),
            mapping("7f10c000-7f10e000 rw-p 00000000 00:00 0      [anon:cache]", 8, 0, 0),
            mapping("7f20c000-7f20e000 rw-s 00000000 00:01 77     /dev/zero (deleted)", 16, 0, 0),
            mapping("7f30c000-7f30e000 rw-s 00000000 00:01 78     /memfd:vcm-memory (deleted)", 32, 0, 0),
            mapping("7ffd0000-7ffe0000 rw-p 00000000 00:00 0      [stack]", 64, 0, 0),
        ];
        let memory = parse(&text.concat());
        assert_eq!(memory.heap, (2 + 4 + 8) * 1024);
        assert_eq!((memory.heap_lazy, memory.heap_huge), (3 * 1024, 2 * 1024));
        assert_eq!(memory.total, 127 * 1024);
    }

    #[test]
    fn this_process_has_a_heap_and_more_than_a_heap() {
        for memory in [of_idle_process(std::process::id()), of_working_process(std::process::id())] {
            assert!(memory.heap > 0 && memory.total > memory.heap, "{memory:?}");
        }
    }

    #[test]
    fn a_process_at_work_is_read_from_its_status() {
        let memory = parse_status("Name:\tx\nVmRSS:\t    300 kB\nRssAnon:\t     200 kB\nRssFile:\t 100 kB\n");
        assert_eq!((memory.heap, memory.total), (200 * 1024, 300 * 1024));
    }

    #[test]
    fn faults_and_processor_time_are_found_behind_a_name_of_any_kind() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194304 1234 0 5 0 300 50 0 0 20 0 1 0 99 0 0";
        assert_eq!(parse_stat(text, 100.0), Used { faults: 1234, cpu_seconds: 3.5 });
        assert_eq!(parse_stat("", 100.0), Used::default());
        assert!(used_by(std::process::id()).faults > 0);
    }

    #[test]
    fn a_process_that_is_gone_has_nothing() {
        assert_eq!(of_idle_process(u32::MAX), Memory::default());
        assert_eq!(of_working_process(u32::MAX), Memory::default());
    }
}
