//! The file that an address of code belongs to, from the lines of /proc/self/maps, read byte by byte.

use crate::base::text::{Sink, put_hex};
use crate::os::Os;

/// Bytes of a path that are kept.
const MOST_PATH: usize = 192;

/// Looks for one address while the lines go by.
struct Search {
    address: usize,
    field: u32,
    start: usize,
    end: usize,
    inode: u64,
    path: [u8; MOST_PATH],
    path_length: usize,
    /// The file of the line before, and where its first mapping starts.
    last_inode: u64,
    base: usize,
    found: bool,
}

impl Search {
    fn new(address: usize) -> Self {
        Search {
            address,
            field: 0,
            start: 0,
            end: 0,
            inode: 0,
            path: [0; MOST_PATH],
            path_length: 0,
            last_inode: 0,
            base: 0,
            found: false,
        }
    }

    /// Takes a byte of `start-end perms offset device inode   path`.
    fn take(&mut self, byte: u8) {
        if self.found {
            return;
        }
        let hex = (byte as char).to_digit(16).unwrap_or(0) as usize;
        match (self.field, byte) {
            (_, b'\n') => self.end_line(),
            // The path is the rest of the line, spaces before it left out.
            (6, b' ') if self.path_length == 0 => {}
            (6, _) => {
                if let Some(place) = self.path.get_mut(self.path_length) {
                    *place = byte;
                    self.path_length += 1;
                }
            }
            (0, b'-') | (1..=5, b' ') => self.field += 1,
            (0, _) => self.start = self.start << 4 | hex,
            (1, _) => self.end = self.end << 4 | hex,
            (5, _) => self.inode = self.inode.wrapping_mul(10) + hex as u64,
            _ => {}
        }
    }

    fn end_line(&mut self) {
        if self.inode == 0 || self.inode != self.last_inode {
            self.base = self.start;
        }
        self.last_inode = self.inode;
        self.found = self.start <= self.address && self.address < self.end;
        if !self.found {
            (self.field, self.start, self.end, self.inode, self.path_length) = (0, 0, 0, 0, 0);
        }
    }
}

/// Writes the file that holds an address and the place in it, such as ` /usr/bin/x+0x1234`; nothing where it
/// is unknown.
pub fn put_module<O: Os>(os: &O, sink: &mut dyn Sink, address: usize) {
    let mut search = Search::new(address);
    os.read_through(c"/proc/self/maps", &mut |piece| piece.iter().for_each(|byte| search.take(*byte)));
    let path = search.path.get(..search.path_length).unwrap_or(&[]);
    if search.found && !path.is_empty() {
        sink.put(b" ");
        sink.put(path);
        sink.put(b"+");
        put_hex(sink, (address - search.base) as u64);
    }
}
