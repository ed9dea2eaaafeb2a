//! The process's figures of itself: memory, CPU time, and how fast the machine is right now.

use std::io::Read;
use std::time::Instant;

/// Resident memory in KiB from the kernel's counters; they may lag by some 64 pages a CPU.
///
/// Allocates nothing: it is called under load, when a malloc may wait for a lock behind a thousand threads.
pub fn resident_kib() -> u64 {
    let mut buffer = [0; 256];
    let read =
        std::fs::File::open("/proc/self/statm").and_then(|mut file| file.read(&mut buffer)).unwrap_or(0);
    let pages = std::str::from_utf8(&buffer[..read])
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * page_kib()
}

/// Resident memory in KiB counted page by page: exact, but it stops the process's mmap calls meanwhile.
pub fn resident_kib_exact() -> u64 {
    field_kib("/proc/self/smaps_rollup", "Rss:").unwrap_or_else(resident_kib)
}

/// The highest resident memory so far, in KiB.
pub fn peak_resident_kib() -> u64 {
    field_kib("/proc/self/status", "VmHWM:").unwrap_or(0)
}

fn field_kib(path: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn page_kib() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096) / 1024
}

/// A moment in wall time and in the CPU time of all threads of the process.
#[derive(Clone, Copy)]
pub struct Moment {
    wall: Instant,
    user: f64,
    system: f64,
}

/// The time between two moments, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Elapsed {
    pub wall: f64,
    pub user: f64,
    pub system: f64,
}

impl Moment {
    pub fn now() -> Self {
        // SAFETY: all zero is a valid rusage and getrusage fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self { wall: Instant::now(), user: seconds(usage.ru_utime), system: seconds(usage.ru_stime) }
    }

    pub fn until(self, later: Moment) -> Elapsed {
        Elapsed {
            wall: (later.wall - self.wall).as_secs_f64(),
            user: later.user - self.user,
            system: later.system - self.system,
        }
    }
}

/// Nanoseconds per step of a chain of dependent multiplications: on a quiet machine always the same, so a
/// higher value says that this run was disturbed (another guest, a lower clock). Best of three short runs.
pub fn machine_ns() -> f64 {
    const STEPS: u32 = 200_000;
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let start = Instant::now();
        let mut value = std::hint::black_box(1u64);
        for _ in 0..STEPS {
            value = value.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 1;
        }
        std::hint::black_box(value);
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(STEPS));
    }
    best
}

/// Keeps the calling thread on one CPU.
pub fn pin_to(cpu: usize) -> anyhow::Result<()> {
    // SAFETY: all zero is an empty set; CPU_SET checks the index against the set's size.
    let refused = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    let reason = std::io::Error::last_os_error();
    anyhow::ensure!(
        refused == 0,
        "cannot stay on CPU {cpu}: {reason}; give --pin a CPU that `taskset -p $$` lists"
    );
    Ok(())
}
