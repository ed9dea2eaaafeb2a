//! Start of the heap, and options while it runs.

use crate::base::fault::Misuse;
use crate::base::rare;
use crate::base::sync::Ordering;
use crate::base::text::{self, Buffer, Sink};
use crate::heap::{FAILED, Heap, NEW, READY, STOPPED};
use crate::options::{
    self, AUTO, CACHE_BYTES_PER_CPU, OptionId, Origin, Refused, Setting, TOOL_VARIABLES, VARIABLE_PREFIX,
    percent_of,
};
use crate::os::{Os, Unread};
use core::ffi::CStr;

/// Where the config file is unless `VCM_CONFIG` says otherwise.
const CONFIG_FILE: &CStr = c"/etc/vcmalloc.conf";
const MOST_PATH_BYTES: usize = 511;
const PREFIX: &[u8] = VARIABLE_PREFIX.as_bytes();

/// How a heap came to be set up, for those who ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    pub front: crate::cache::FrontKind,
    pub cache_limit: usize,
    pub usable_cpus: usize,
}

impl<O: Os> Heap<O> {
    /// Starts the heap if that has not happened yet; false where the system gives no memory for its tables.
    #[inline]
    pub(crate) fn is_started(&self) -> bool {
        match self.state.load(Ordering::Acquire) {
            READY => true,
            STOPPED => false,
            _ => self.start(),
        }
    }

    #[cold]
    fn start(&self) -> bool {
        let _held = self.starting.lock();
        // First: a child that is made in the middle of this finds the lock held.
        self.process.start(&self.os);
        if self.state.load(Ordering::Relaxed) == READY {
            return true;
        }
        let first = self.state.load(Ordering::Relaxed) == NEW;
        if first {
            self.read_settings();
        }
        let started = self.start_layers();
        self.state.store(if started { READY } else { FAILED }, Ordering::Release);
        if started {
            self.apply_bound(1);
            // Unless a limit is a share of it, the cgroup is read by the first tick: it takes a dozen system
            // calls, too many for a process that hardly allocates.
            let limits = [OptionId::memory_limit, OptionId::hard_limit];
            let asked = limits.into_iter().any(|id| percent_of(self.options.get(id)).is_some());
            self.set_limits(if asked { self.os.memory_group(false).unwrap_or(None) } else { None });
            self.start_sampling();
        }
        started
    }

    fn start_layers(&self) -> bool {
        if !self.pages.start(&self.os) {
            return false;
        }
        let checked = self.options.is_on(OptionId::double_free_check);
        if checked {
            self.pages.give_by_call();
        }
        if !self.cache.start(&self.os, self.options.get(OptionId::front) == 1, checked) {
            self.pages.stop(&self.os);
            return false;
        }
        self.central.start(&self.os);
        true
    }

    /// The bound that holds for so many CPUs.
    fn bound_for(&self, cpus: usize) -> usize {
        match self.options.get(OptionId::cache_limit) {
            AUTO => cpus.saturating_mul(CACHE_BYTES_PER_CPU),
            bytes => bytes as usize,
        }
    }

    fn apply_bound(&self, cpus: usize) {
        let limit = self.bound_for(cpus);
        self.central.budget.set_limit(limit);
        self.cache.set_share(limit, cpus);
    }

    /// Settles the bound once half of that for one CPU is taken. Asked at every miss, so what is never
    /// written again is read first.
    #[inline]
    pub(crate) fn settle_bound_if_needed(&self) {
        let budget = &self.central.budget;
        if self.bound_is_final.load(Ordering::Relaxed) == 0 && budget.taken() > budget.limit() / 2 {
            self.settle_bound();
        }
    }

    /// Asks the system for the CPUs once the process shows that it has use for more than one slab or its
    /// room.
    pub(crate) fn settle_bound(&self) {
        if self.bound_is_final.swap(1, Ordering::Relaxed) == 0 {
            rare();
            self.apply_bound(self.os.usable_cpus());
        }
    }

    pub fn setup(&self) -> Setup {
        let usable_cpus = self.os.usable_cpus();
        self.settle_bound();
        Setup { front: self.cache.kind(), cache_limit: self.central.budget.limit(), usable_cpus }
    }

    /// Sets an option of the running heap. Lowering `cache_limit` empties the caches before this returns.
    pub fn set_option(&self, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        let id = self.options.set(name, value, Origin::Api)?;
        if self.inside(|| self.apply_option(id)).is_none() {
            // A signal handler that interrupted a slow path: it takes effect when that ends.
            // Release and Acquire: whoever takes the bit sees the value.
            self.late_options.fetch_or(1 << id as u32, Ordering::Release);
        }
        Ok(())
    }

    /// Lets options take effect that a signal handler set inside a slow path.
    #[inline]
    pub(crate) fn apply_late_options(&self) {
        if self.late_options.load(Ordering::Relaxed) == 0 {
            return;
        }
        let late = self.late_options.swap(0, Ordering::Acquire);
        let ids = OptionId::ALL.into_iter().filter(|id| late >> *id as u32 & 1 == 1);
        self.inside(|| ids.for_each(|id| self.apply_option(id)));
    }

    fn apply_option(&self, id: OptionId) {
        if matches!(id, OptionId::memory_limit | OptionId::hard_limit) && self.is_started() {
            self.read_limits();
        }
        if self.is_started() {
            self.apply_sampling_option(id);
        }
        if id == OptionId::system_calls && self.is_started() {
            self.apply_system_calls();
        }
        if id == OptionId::cache_limit && self.is_started() {
            self.bound_is_final.store(1, Ordering::Relaxed);
            self.apply_bound(self.os.usable_cpus());
            self.keep_bound();
        }
    }

    fn is_over_bound(&self) -> bool {
        self.central.budget.taken() > self.central.budget.limit()
    }

    /// Room that was taken under the old bound comes back only when the caches are emptied. Growth meanwhile is
    /// refused, so one round is enough for caches by virtual CPU, unless the system refuses to stop the sequences.
    /// A cache under a lock is passed over while its holder does not run; it will, while we wait and hold no lock.
    /// Not for ever: somebody may have stopped that thread. Then the next tick does it.
    fn keep_bound(&self) {
        const ROUNDS: u32 = 2000;
        const WAIT: u64 = 500_000;
        let refused = || self.fences_refused.load(Ordering::Relaxed);
        let before = refused();
        for _ in 0..ROUNDS {
            if !self.is_over_bound() {
                return;
            }
            self.reclaim();
            if !self.is_over_bound() || refused() != before || self.cache.is_interrupted() {
                return;
            }
            self.os.wait_for(&self.emergency.never, 0, WAIT);
        }
    }

    /// Empties the caches where a lower bound found some of them in use.
    pub(crate) fn keep_bound_at_tick(&self) -> Result<(), Misuse> {
        if self.is_over_bound() { self.try_reclaim() } else { Ok(()) }
    }

    fn read_settings(&self) {
        if self.os.is_privileged() {
            return;
        }
        self.read_config_file();
        self.os.each_variable(&mut |name, value| {
            if let Some(option) = name.strip_prefix(PREFIX) {
                if !TOOL_VARIABLES.iter().any(|tool| tool.as_bytes() == name) {
                    self.take_variable(option, value);
                }
            } else if let Some(outcome) = self.options.set_foreign(name, value) {
                self.warn_about(outcome.err(), "", name, value);
            }
        });
    }

    /// `VCM_CACHE_LIMIT` is the option `cache_limit`.
    fn take_variable(&self, option: &[u8], value: &[u8]) {
        let mut lower = [0u8; 48];
        let Some(name) = lower.get_mut(..option.len()) else {
            return self.warn_about(Some(Refused::UnknownName), VARIABLE_PREFIX, option, value);
        };
        for (to, from) in name.iter_mut().zip(option) {
            *to = from.to_ascii_lowercase();
        }
        let outcome = self.options.set(name, value, Origin::Environment);
        self.warn_about(outcome.err(), VARIABLE_PREFIX, name, value);
    }

    fn read_config_file(&self) {
        let mut path = [0u8; MOST_PATH_BYTES + 1];
        let (mut named, mut too_long) = (false, false);
        self.os.each_variable(&mut |name, value| {
            if name == b"VCM_CONFIG" {
                named = !value.is_empty();
                // The last byte stays zero.
                match path.get_mut(..value.len()).filter(|room| room.len() <= MOST_PATH_BYTES) {
                    Some(room) => room.copy_from_slice(value),
                    None => too_long = true,
                }
            }
        });
        if too_long {
            return self.warn(&[b"VCM_CONFIG is longer than 511 bytes: no config file is read"]);
        }
        let path = CStr::from_bytes_until_nul(&path).unwrap_or(CONFIG_FILE);
        let path = if named { path } else { CONFIG_FILE };
        // Most processes have no such file: they do not touch two pages of stack to find that out.
        match self.os.read_file(path, &mut []) {
            Ok(_) => self.read_config(path),
            Err(_) if named => {
                self.warn(&[b"the file that VCM_CONFIG names cannot be read: ", path.to_bytes()])
            }
            Err(Unread::Refused) => {
                self.warn(&[path.to_bytes(), b" cannot be read: what it sets does not hold here"])
            }
            Err(Unread::Missing) => {}
        }
    }

    #[inline(never)]
    fn read_config(&self, path: &CStr) {
        let mut content = [0u8; options::FILE_ROOM];
        let length = self.os.read_file(path, &mut content).unwrap_or(0);
        self.take_config(path, content.get(..length).unwrap_or(&[]));
    }

    fn take_config(&self, path: &CStr, content: &[u8]) {
        let (content, cut) = options::part_to_read(content);
        if cut {
            self.warn(&[path.to_bytes(), b": longer than 8191 bytes; the rest is not read"]);
        }
        let mut program = [0u8; 16];
        let length = self.os.program_name(&mut program);
        let program = program.get(..length).unwrap_or(&[]);
        options::each_setting(content, program, |setting| match setting {
            Setting::Value { name, text, origin, number } => {
                if let Err(refused) = self.options.set(name, text, origin) {
                    self.warn_at(path, number, &mut |sink| {
                        options::put_refusal_after(sink, "", name, text, refused);
                    });
                }
            }
            Setting::BadLine { number } => self.warn_at(path, number, &mut |sink| {
                text::put_str(sink, "expected 'name = value' or '[program]'\n");
            }),
        });
    }

    fn warn_about(&self, refused: Option<Refused>, prefix: &str, name: &[u8], value: &[u8]) {
        let Some(refused) = refused else { return };
        let mut line = [0u8; 512];
        let mut buffer = Buffer::new(&mut line);
        options::put_refusal(&mut buffer, prefix, name, value, refused);
        self.os.write(2, buffer.as_bytes());
    }

    /// One line about a line of the config file.
    fn warn_at(&self, path: &CStr, number: usize, put: &mut dyn FnMut(&mut dyn Sink)) {
        let mut line = [0u8; 1024];
        let mut buffer = Buffer::new(&mut line);
        text::put_str(&mut buffer, "vcmalloc: ");
        buffer.put(path.to_bytes());
        text::put_str(&mut buffer, ":");
        text::put_decimal(&mut buffer, number as u64);
        text::put_str(&mut buffer, ": ");
        put(&mut buffer);
        self.os.write(2, buffer.as_bytes());
    }

    fn warn(&self, parts: &[&[u8]]) {
        let mut line = [0u8; 1024];
        let mut buffer = Buffer::new(&mut line);
        text::put_str(&mut buffer, "vcmalloc: ");
        parts.iter().for_each(|part| buffer.put(part));
        text::put_str(&mut buffer, "\n");
        self.os.write(2, buffer.as_bytes());
    }
}
