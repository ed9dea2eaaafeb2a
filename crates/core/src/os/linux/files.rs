//! Files and messages, without buffers of libc's.
//!
//! By system calls, not by libc's functions of these names: those are points of cancellation, where a thread
//! would end in the middle of malloc, with locks held; and other libraries replace them.

use super::thread::error_number;
use crate::base::text::Sink;
use crate::os::Unread;
use core::ffi::{CStr, c_int};

/// A descriptor of our own, negative where there is none.
fn open(path: &CStr, flags: c_int) -> c_int {
    // SAFETY: the path is a C string.
    unsafe {
        libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags | libc::O_CLOEXEC, 0o600)
            as c_int
    }
}

/// False where the system says that something that was written is lost.
fn close(descriptor: c_int) -> bool {
    // SAFETY: the descriptor is ours.
    unsafe { libc::syscall(libc::SYS_close, descriptor) == 0 }
}

/// Fills the beginning of `room`; the bytes, 0 at the end, negative where the system refuses.
fn read_some(descriptor: c_int, room: &mut [u8]) -> isize {
    // SAFETY: the bytes that are read stay inside the room.
    unsafe { libc::syscall(libc::SYS_read, descriptor, room.as_mut_ptr(), room.len()) as isize }
}

#[inline(never)]
pub(super) fn read(path: &CStr, buffer: &mut [u8]) -> Result<usize, Unread> {
    // A pipe that nobody writes to must not stop the program here.
    let descriptor = open(path, libc::O_RDONLY | libc::O_NONBLOCK);
    if descriptor < 0 {
        return Err(match error_number() {
            libc::ENOENT | libc::ENOTDIR => Unread::Missing,
            _ => Unread::Refused,
        });
    }
    let mut used = 0;
    let mut last = 0;
    while let Some(room) = buffer.get_mut(used..) {
        last = read_some(descriptor, room);
        if last <= 0 {
            break;
        }
        used += last as usize;
    }
    close(descriptor);
    // A folder can be opened.
    if last < 0 { Err(Unread::Refused) } else { Ok(used) }
}

/// The beginning of a small file of the kernel's, which gives as much as there is room for at once.
#[inline(never)]
pub(super) fn read_once(path: &CStr, buffer: &mut [u8]) -> Result<usize, Unread> {
    let descriptor = open(path, libc::O_RDONLY);
    if descriptor < 0 {
        return Err(Unread::Refused);
    }
    let count = read_some(descriptor, buffer);
    close(descriptor);
    usize::try_from(count).map_err(|_| Unread::Refused)
}

/// Hands the lines of a file to `take` until it says that it has enough; of a line longer than 256 bytes its beginning.
#[inline(never)]
pub(super) fn each_line(path: &CStr, take: &mut dyn FnMut(&[u8]) -> bool) {
    each_line_in(path, &mut [0u8; 256], take);
}

/// The same for lines that are longer: as many bytes of each as there is room for.
pub(super) fn each_line_in(path: &CStr, line: &mut [u8], take: &mut dyn FnMut(&[u8]) -> bool) {
    let descriptor = open(path, libc::O_RDONLY);
    if descriptor < 0 {
        return;
    }
    // The rest of a line whose beginning was taken is passed over.
    let (mut used, mut is_rest) = (0, false);
    'all: loop {
        let room = line.get_mut(used..).unwrap_or(&mut []);
        let count = usize::try_from(read_some(descriptor, room)).unwrap_or(0);
        used += count;
        let text = line.get(..used).unwrap_or(&[]);
        let mut from = 0;
        while let Some(length) = text.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n'))
        {
            if !is_rest && take(text.get(from..from + length).unwrap_or(&[])) {
                break 'all;
            }
            is_rest = false;
            from += length + 1;
        }
        let is_full = from == 0 && used == line.len();
        if count == 0 || is_full {
            let rest = text.get(from..).unwrap_or(&[]);
            if !is_rest && !rest.is_empty() && take(rest) || count == 0 {
                break;
            }
            (is_rest, from) = (true, used);
        }
        used = used.min(line.len()).saturating_sub(from);
        let to = line.as_mut_ptr();
        // SAFETY: the bytes that are kept end where text was read to, within the line.
        unsafe { core::ptr::copy(to.add(from), to, used) };
    }
    close(descriptor);
}

/// Bytes that are read or written in one go.
const PIECE: usize = 1024;

pub(super) fn read_through(path: &CStr, take: &mut dyn FnMut(&[u8])) -> bool {
    let mut piece = [0u8; PIECE];
    let descriptor = open(path, libc::O_RDONLY);
    if descriptor < 0 {
        return false;
    }
    loop {
        let count = read_some(descriptor, &mut piece);
        match usize::try_from(count).ok().and_then(|count| piece.get(..count)) {
            None | Some([]) => break,
            Some(bytes) => take(bytes),
        }
    }
    close(descriptor);
    true
}

/// Hands a part of a file of the kernel's to `take`; false where it is not all there.
pub(super) fn read_part(path: &CStr, from: usize, bytes: usize, take: &mut dyn FnMut(&[u8])) -> bool {
    let mut piece = [0u8; PIECE];
    let descriptor = open(path, libc::O_RDONLY);
    if descriptor < 0 {
        return false;
    }
    let mut done = 0;
    while done < bytes {
        let room = (bytes - done).min(PIECE);
        let to = piece.as_mut_ptr();
        // SAFETY: the bytes that are read stay inside the piece.
        let count = unsafe { libc::syscall(libc::SYS_pread64, descriptor, to, room, from + done) };
        match usize::try_from(count).ok().and_then(|count| piece.get(..count)) {
            None | Some([]) => break,
            Some(part) => {
                take(part);
                done += part.len();
            }
        }
    }
    close(descriptor);
    done == bytes
}

/// `Os::residency` out of /proc/self/pagemap: a word for each page, whose highest bit says that it is there.
#[inline(never)]
pub(super) fn residency(address: usize, pages: &mut [u8], page: usize) -> bool {
    const WORD: usize = size_of::<u64>();
    let (from, bytes) = (address / page.max(1) * WORD, pages.len() * WORD);
    let mut states = pages.iter_mut();
    read_part(c"/proc/self/pagemap", from, bytes, &mut |words| {
        let words = words.chunks_exact(WORD).filter_map(|word| word.last());
        words.zip(&mut states).for_each(|(highest, state)| *state = highest >> 7);
    })
}

/// A descriptor as a place for text.
struct Writer {
    descriptor: i32,
    piece: [u8; PIECE],
    used: usize,
    /// Bytes that the file may still grow by.
    left: u64,
    /// The first error: bytes after it are not written.
    outcome: Result<(), u32>,
}

impl Writer {
    fn flush(&mut self) {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.used);
        let bytes = self.piece.get(..room).unwrap_or(&[]);
        if self.outcome.is_ok() && !write_all(self.descriptor, bytes) {
            self.outcome = Err(error_number() as u32);
        }
        if room < self.used {
            self.outcome = self.outcome.and(Err(libc::EFBIG as u32));
        }
        self.left -= room as u64;
        self.used = 0;
    }
}

impl Sink for Writer {
    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.used == PIECE {
                self.flush();
            }
            if let Some(place) = self.piece.get_mut(self.used) {
                *place = *byte;
                self.used += 1;
            }
        }
    }
}

/// So long may a file become.
pub(super) fn longest() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let (own, kind, no_change) = (0, libc::RLIMIT_FSIZE, core::ptr::null::<libc::rlimit>());
    // SAFETY: the call is told where a limit may be written.
    match unsafe { libc::syscall(libc::SYS_prlimit64, own, kind, no_change, &raw mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

/// Writes a file beside another, and puts it into its place when it is whole. The system's error, 0 where it is none.
pub(super) fn write_whole(
    path: &CStr,
    beside: &CStr,
    most: u64,
    fill: &mut dyn FnMut(&mut dyn Sink),
) -> Result<(), u32> {
    if !may_be_replaced(path) {
        return Err(0);
    }
    write_new(beside, most, fill)?;
    let here = libc::AT_FDCWD;
    // SAFETY: both are C strings.
    match unsafe { libc::syscall(libc::SYS_renameat2, here, beside.as_ptr(), here, path.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(error_number() as u32),
    }
}

/// Whether there is nothing, or a file: a link or a device that somebody put there is meant otherwise.
fn may_be_replaced(path: &CStr) -> bool {
    // SAFETY: all zeros is a valid stat.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    let (here, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_NOFOLLOW);
    // SAFETY: the call is told where a stat may be written; the path is a C string.
    let known = unsafe { libc::syscall(libc::SYS_newfstatat, here, path.as_ptr(), &raw mut status, flags) };
    known != 0 || status.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// The system's error, 0 where it is none.
pub(super) fn write_new(path: &CStr, most: u64, fill: &mut dyn FnMut(&mut dyn Sink)) -> Result<(), u32> {
    // The name may be one that others can guess, in a folder that they can write to: nothing that they put there is
    // followed, waited for or overwritten.
    const CAREFULLY: c_int = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut left = most;
    let mut descriptor = open(path, CAREFULLY | libc::O_CREAT | libc::O_EXCL);
    if descriptor < 0 && error_number() == libc::EEXIST {
        descriptor = open(path, CAREFULLY);
        if descriptor >= 0 {
            let Some(is_device) = make_empty(descriptor) else {
                close(descriptor);
                return Err(0);
            };
            // A device has no length.
            left = if is_device { u64::MAX } else { most };
        }
    }
    if descriptor < 0 {
        return Err(error_number() as u32);
    }
    let mut writer = Writer { descriptor, piece: [0; PIECE], used: 0, left, outcome: Ok(()) };
    fill(&mut writer);
    writer.flush();
    let closed = close(descriptor);
    writer.outcome.and(if closed { Ok(()) } else { Err(error_number() as u32) })
}

/// Empties a file that is this user's alone, under one name; a device, of which this tells, needs no emptying. None for
/// anything else.
fn make_empty(descriptor: c_int) -> Option<bool> {
    // SAFETY: all zeros is a valid stat.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the call is told where a stat may be written.
    let known = unsafe { libc::syscall(libc::SYS_fstat, descriptor, &raw mut status) == 0 };
    // SAFETY: asks for a number; the descriptor is ours.
    let (user, kind) = (unsafe { libc::syscall(libc::SYS_geteuid) } as u32, status.st_mode & libc::S_IFMT);
    let is_own = kind == libc::S_IFREG && status.st_uid == user && status.st_nlink == 1;
    let is_device = kind == libc::S_IFCHR;
    // SAFETY: the descriptor is ours.
    let is_empty = is_device || is_own && unsafe { libc::syscall(libc::SYS_ftruncate, descriptor, 0) } == 0;
    (known && is_empty).then_some(is_device)
}

pub(super) fn write(descriptor: i32, bytes: &[u8]) {
    write_all(descriptor, bytes);
}

/// False where not all could be written.
fn write_all(descriptor: i32, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        // SAFETY: writes what the slice holds.
        let count = unsafe { libc::syscall(libc::SYS_write, descriptor, rest.as_ptr(), rest.len()) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => rest = rest.get(count..).unwrap_or(&[]),
            _ => return false,
        }
    }
    true
}

/// Bytes of this process that are in memory and its own: /proc/self/statm counts pages, and tells apart those that are
/// shared with others or with files.
pub(super) fn own_memory() -> Option<usize> {
    let mut text = [0u8; 128];
    let length = read_once(c"/proc/self/statm", &mut text).ok()?;
    let mut numbers = text.get(..length)?.split(|byte| *byte == b' ').skip(1);
    let mut next = || str::from_utf8(numbers.next()?).ok()?.parse::<usize>().ok();
    let (resident, shared) = (next()?, next()?);
    Some(resident.saturating_sub(shared).saturating_mul(super::memory::page_bytes()))
}
