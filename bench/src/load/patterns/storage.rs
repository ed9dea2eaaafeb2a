//! The shape of a storage daemon: messenger threads allocate requests, op threads work on them and free them.
//!
//! ```text
//!   messenger ──► op structure 100..700 B ─► header 128..256 B
//!                          │               ─► payload 4 KiB + 64 B; 1 in 16: 64 KiB; 1 in 64: 128 KiB
//!                          └─► chain of 2..5 nodes of 48..96 B (a list of buffer pieces)
//!   op thread ──► 2 scratch blocks 64..512 B per request, then frees all of it
//! ```
//!
//! Sizes after what a Ceph OSD allocates per 4 KiB write. There are at most 8 queues ("shards") of at most
//! 512 requests; a messenger sends batches of 16 to one chosen at random, and the op threads of a shard take
//! turns, so blocks travel between all threads while the requests in flight stay about the same at any number
//! of them. Of a block the first byte is written, of a payload one byte a page: the daemon's copying would
//! cost the same everywhere and hide the allocator. One operation is one request: 7 to 10 mallocs and frees.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::queue::Queue;
use crate::load::random::{Random, scaled};
use std::sync::atomic::{AtomicUsize, Ordering};

const BATCH: usize = 16;
const SHARDS: usize = 8;
const SHARD_REQUESTS: usize = 512;
const HEADER_BYTES: usize = 64;

/// The start of an op structure. Its block is longer.
#[repr(C)]
struct Request {
    header: Block,
    payload: Block,
    pieces: *mut Piece,
}

/// The start of a node in the list of buffer pieces.
#[repr(C)]
struct Piece {
    next: *mut Piece,
}

pub struct Storage {
    shards: Vec<Queue>,
    messengers_at_work: AtomicUsize,
}

impl Storage {
    /// `threads` is even: half messengers, half op threads.
    pub fn new(threads: usize) -> Self {
        Self {
            shards: (0..SHARDS.min(threads / 2)).map(|_| Queue::with_capacity(SHARD_REQUESTS)).collect(),
            messengers_at_work: AtomicUsize::new(threads / 2),
        }
    }

    fn is_messenger(worker: &Worker) -> bool {
        worker.index.is_multiple_of(2)
    }

    fn receive_and_send(&self, worker: &mut Worker, clock: &Clock) {
        let mut batch = [std::ptr::null_mut(); BATCH];
        // The op threads count the operations. For a fixed number of them a messenger does two workers'
        // share.
        let mut sent = 0;
        while !clock.is_over_after(sent) {
            batch.fill_with(|| new_request(&mut worker.random));
            self.shards[worker.random.below(self.shards.len())].send(&batch);
            sent += BATCH as u64 / 2;
        }
    }

    fn serve(&self, worker: &mut Worker) {
        let mut batch: [Block; BATCH] = [std::ptr::null_mut(); BATCH];
        let shard = &self.shards[worker.index / 2 % self.shards.len()];
        loop {
            let count = shard.receive(&mut batch);
            if count == 0 {
                break;
            }
            for &request in &batch[..count] {
                // SAFETY: made by new_request, and the queue hands it to one receiver.
                unsafe { finish_request(request, &mut worker.random) };
            }
            worker.operations += count as u64;
        }
    }
}

impl Workload for Storage {
    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        if Self::is_messenger(worker) {
            self.receive_and_send(worker, clock);
        } else {
            self.serve(worker);
        }
    }

    fn leave(&self, worker: &mut Worker) {
        if !Self::is_messenger(worker) {
            return;
        }
        self.shards.iter().for_each(Queue::nudge_senders);
        // AcqRel: the last to leave closes the queues after everything that the others sent.
        if self.messengers_at_work.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shards.iter().for_each(Queue::close);
        }
    }
}

fn touched(bytes: usize) -> Block {
    let block = c_heap::allocate(bytes);
    // SAFETY: live, and no size here is zero.
    unsafe { c_heap::touch(block, 0) };
    block
}

fn new_request(random: &mut Random) -> Block {
    let bits = random.next();
    let request: *mut Request = c_heap::allocate(100 + scaled(bits, 601)).cast();
    let payload_bytes = HEADER_BYTES
        + match bits >> 58 {
            0 => 128 << 10,
            1..=4 => 64 << 10,
            _ => 4 << 10,
        };
    let payload = c_heap::allocate(payload_bytes);
    let mut pieces = std::ptr::null_mut();
    for _ in 0..2 + (bits >> 40) % 4 {
        let piece: *mut Piece = c_heap::allocate(48 + random.below(49)).cast();
        // SAFETY: at least 48 bytes, aligned for any type, just allocated.
        unsafe { piece.write(Piece { next: pieces }) };
        pieces = piece;
    }
    let header = touched(128 + scaled(bits >> 16, 129));
    // SAFETY: both blocks are live; the request has at least 100 bytes.
    unsafe {
        c_heap::touch_pages(payload, payload_bytes);
        request.write(Request { header, payload, pieces });
    }
    request.cast()
}

/// # Safety
/// `request` came from [`new_request`] and is finished once.
unsafe fn finish_request(request: Block, random: &mut Random) {
    let scratch = [touched(64 + random.below(449)), touched(64 + random.below(449))];
    // SAFETY: the request and all that hangs on it are live and belong to this call.
    unsafe {
        let Request { header, payload, mut pieces } = request.cast::<Request>().read();
        while !pieces.is_null() {
            let next = (*pieces).next;
            c_heap::release(pieces.cast());
            pieces = next;
        }
        for block in [payload, header, scratch[0], scratch[1], request] {
            c_heap::release(block);
        }
    }
}
