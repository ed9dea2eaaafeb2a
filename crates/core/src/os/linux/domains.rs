//! The CPUs that share a cache of the third level: a line moves faster between two of these than between others, and another
//! memory node's CPUs are always others. If very many share one, they are parted: one lock for all of them would be
//! too few.

use super::cgroup::each_range;
use crate::base::sync::{AtomicU8, AtomicU32, Ordering};
use crate::base::text::{Buffer, Sink, put_decimal};
use core::ffi::CStr;

/// CPUs beyond are taken for neighbours of the first one.
const MOST_CPUS: usize = 2048;
/// CPUs of a domain, at most: the array of a class is full with the hand-off of 8. More where there would be too many domains.
const MOST_TOGETHER: usize = 4;
/// Domains beyond share the numbers.
pub const MOST_DOMAINS: usize = 32;
const LONGEST_LIST: usize = 1024;
/// Rows of CPUs in such a list, at most.
const MOST_PARTS: usize = 64;

const UNKNOWN: u32 = 0;
/// And the number of domains where there are several.
const ONE: u32 = 1;

/// The domains of this machine, as far as they are known. Any thread may call.
pub(super) struct Domains {
    count: AtomicU32,
    of_cpu: [AtomicU8; MOST_CPUS],
}

impl Default for Domains {
    fn default() -> Self {
        Self::new()
    }
}

impl Domains {
    pub const fn new() -> Self {
        Domains { count: AtomicU32::new(UNKNOWN), of_cpu: [const { AtomicU8::new(0) }; MOST_CPUS] }
    }

    pub fn are_several(&self) -> bool {
        self.count.load(Ordering::Acquire) > ONE
    }

    pub fn are_known(&self) -> bool {
        self.count.load(Ordering::Relaxed) != UNKNOWN
    }

    /// Below `MOST_DOMAINS`.
    pub fn of(&self, cpu: usize) -> usize {
        self.of_cpu.get(cpu).map_or(0, |domain| usize::from(domain.load(Ordering::Relaxed)))
    }

    /// Asks which CPUs there are and, for one CPU of each domain, which ones are with it. `read` fills its room from a file
    /// of the system: the bytes, none where it is not there.
    pub fn learn(&self, mut read: impl FnMut(&CStr, &mut [u8]) -> Option<usize>) {
        let mut seen = [0u64; MOST_CPUS / 64];
        let mut domains = 0;
        let mut list_of = |path: &CStr, take: &mut dyn FnMut(usize, usize)| {
            let mut room = [0u8; LONGEST_LIST];
            let list = read(path, &mut room).and_then(|bytes| room.get(..bytes));
            list.and_then(|list| each_range(list, take)).is_some()
        };
        let mut online = [0u64; MOST_CPUS / 64];
        list_of(c"/sys/devices/system/cpu/online", &mut |first, last| {
            mark(&mut online, first, last.saturating_add(1))
        });
        let cpus = online.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        let together = cpus.div_ceil(MOST_DOMAINS).max(MOST_TOGETHER);
        for cpu in (0..MOST_CPUS).filter(|cpu| has(&online, *cpu)) {
            if has(&seen, cpu) {
                continue;
            }
            let mut sharers = 0;
            let mut parts = [(0, 0); MOST_PARTS];
            let mut free_parts = parts.iter_mut();
            let is_told = with_path(cpu, |path| {
                list_of(path, &mut |first, last| {
                    let last = last.min(MOST_CPUS - 1);
                    if let Some(part) = free_parts.next()
                        && first <= last
                    {
                        *part = (first, last + 1);
                        sharers += last + 1 - first;
                    }
                })
            });
            // A machine that does not tell of one CPU does not tell of others.
            if !is_told || sharers == 0 {
                break;
            }
            let count = sharers.div_ceil(together);
            for (first, end) in parts {
                mark(&mut seen, first, end);
                self.part(first, end, domains, count);
            }
            domains += count;
        }
        // Release pairs with the Acquire in `are_several`.
        self.count.store(domains.max(1) as u32, Ordering::Release);
    }

    /// Gives CPUs that follow each other to so many domains. The siblings of a core lie at the same place of two such rows,
    /// and come into one domain.
    fn part(&self, first: usize, end: usize, domain: usize, count: usize) {
        let length = end - first;
        for (place, of_cpu) in self.of_cpu.iter().take(end).skip(first).enumerate() {
            let number = domain + (place * count).checked_div(length).unwrap_or(0);
            of_cpu.store((number % MOST_DOMAINS) as u8, Ordering::Relaxed);
        }
    }
}

/// Calls `take` with the path of the list of those that share a CPU's cache.
fn with_path(cpu: usize, take: impl FnOnce(&CStr) -> bool) -> bool {
    let mut room = [0u8; 96];
    let mut path = Buffer::new(&mut room);
    path.put(b"/sys/devices/system/cpu/cpu");
    put_decimal(&mut path, cpu as u64);
    path.put(b"/cache/index3/shared_cpu_list\0");
    CStr::from_bytes_until_nul(path.as_bytes()).is_ok_and(take)
}

fn mark(set: &mut [u64], first: usize, end: usize) {
    for cpu in first..end.min(MOST_CPUS) {
        if let Some(word) = set.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }
}

fn has(set: &[u64], cpu: usize) -> bool {
    set.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose files are these.
    fn learnt(files: &[(&str, &str)]) -> Domains {
        let domains = Domains::new();
        domains.learn(|path, room| {
            let path = path.to_str().unwrap();
            let (_, text) =
                files.iter().find(|(name, _)| path == format!("/sys/devices/system/cpu/{name}"))?;
            room[..text.len()].copy_from_slice(text.as_bytes());
            Some(text.len())
        });
        domains
    }

    #[test]
    fn cpus_that_share_a_cache_are_one_domain_and_each_domain_is_asked_for_once() {
        let domains = learnt(&[
            ("online", "0-15\n"),
            ("cpu0/cache/index3/shared_cpu_list", "0-1,8-9\n"),
            ("cpu2/cache/index3/shared_cpu_list", "2-3,10-11\n"),
            ("cpu4/cache/index3/shared_cpu_list", "4-7\n"),
            ("cpu12/cache/index3/shared_cpu_list", "12-15\n"),
        ]);
        assert!(domains.are_known() && domains.are_several());
        assert_eq!(
            [0, 1, 8, 9, 2, 11, 4, 7, 12, 15, 16, 9999].map(|cpu| domains.of(cpu)),
            [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 0, 0]
        );
    }

    #[test]
    fn very_many_cpus_with_one_cache_are_parted_and_the_siblings_of_a_core_stay_together() {
        let domains = learnt(&[
            ("online", "0-127\n"),
            ("cpu0/cache/index3/shared_cpu_list", "0-31,64-95\n"),
            ("cpu32/cache/index3/shared_cpu_list", "32-63,96-127\n"),
        ]);
        let of = |cpu| domains.of(cpu);
        assert!((0..128).all(|cpu| of(cpu) == of(cpu ^ 64)), "siblings");
        assert_eq!([0, 1, 2, 31, 32, 33, 34, 63].map(of), [0, 0, 1, 15, 16, 16, 17, 31]);
        assert!((0..32).all(|domain| (0..128).filter(|cpu| of(*cpu) == domain).count() == 4));
    }

    #[test]
    fn a_domain_has_more_cpus_where_there_would_be_too_many_domains() {
        let domains = learnt(&[
            ("online", "0-511\n"),
            ("cpu0/cache/index3/shared_cpu_list", "0-255\n"),
            ("cpu256/cache/index3/shared_cpu_list", "256-511\n"),
        ]);
        assert_eq!([0, 15, 16, 255, 256, 511].map(|cpu| domains.of(cpu)), [0, 0, 1, 15, 16, 31]);
    }

    #[test]
    fn a_machine_with_one_cache_or_that_tells_nothing_has_one_domain() {
        let one = learnt(&[("online", "0-1\n"), ("cpu0/cache/index3/shared_cpu_list", "0-1\n")]);
        let silent = learnt(&[("online", "0-63\n")]);
        let dumb = learnt(&[]);
        for domains in [one, silent, dumb] {
            assert!(domains.are_known() && !domains.are_several() && domains.of(1) == 0);
        }
    }

    #[test]
    fn numbers_stay_below_the_most_and_lists_beyond_all_cpus_are_harmless() {
        let names: Vec<String> =
            (0..99).map(|cpu| format!("cpu{cpu}/cache/index3/shared_cpu_list")).collect();
        let lists: Vec<String> = (0..99).map(|cpu| format!("{cpu}\n")).collect();
        let mut files: Vec<(&str, &str)> =
            names.iter().zip(&lists).map(|(name, list)| (name.as_str(), list.as_str())).collect();
        files.push(("online", "0-98,4000-9000\n"));
        let domains = learnt(&files);
        assert!((0..5000).all(|cpu| domains.of(cpu) < MOST_DOMAINS) && domains.of(33) == 1);
    }

    #[test]
    fn this_machine_is_read_without_error() {
        let domains = Domains::new();
        domains.learn(|path, room| super::super::files::read_once(path, room).ok());
        assert!(domains.are_known());
    }
}
