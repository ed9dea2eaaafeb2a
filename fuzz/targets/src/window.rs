//! The window of a process that lies: any of its bytes may be any other. A look is figures or an error, with bounded memory.

use std::slice::from_raw_parts;

use vcm_inspect::window;
use vcmalloc_core::heap::{Heap, Window};
use vcmalloc_core::os::fake::Fake;

/// The bytes of a step: part and place, what stands there instead, and of how many bytes.
const STEP: usize = 12;

pub fn run(input: &[u8]) {
    let heap = Box::new(Heap::new(Fake::default()));
    let blocks: Vec<usize> = (0..300).map(|index| heap.allocate(24 + index * 37)).collect();
    blocks.iter().step_by(3).for_each(|block| heap.free(*block));
    let mut window = Window::new(&raw const *heap, "0.1.0");
    let (place_bytes, class_bytes) = (window.place_bytes as usize, window.class_bytes as usize);
    let (places, classes) = (window.place_count as usize, window.class_count as usize);
    // SAFETY: the window tells so many bytes of each; the heap stands still, and its padding may be anything.
    let mut parts = unsafe {
        [
            from_raw_parts((&raw const *heap).cast::<u8>(), size_of::<Heap<Fake>>()).to_vec(),
            from_raw_parts(window.places.cast::<u8>(), place_bytes * places).to_vec(),
            from_raw_parts(window.classes.cast::<u8>(), class_bytes * classes).to_vec(),
            Vec::new(),
        ]
    };
    window.heap = parts[0].as_ptr().cast();
    (window.places, window.classes) = (parts[1].as_ptr().cast(), parts[2].as_ptr().cast());
    // SAFETY: as above; nothing of it is used as what it was but by the reader, which believes nothing.
    parts[3] = unsafe { from_raw_parts((&raw const window).cast::<u8>(), size_of::<Window>()).to_vec() };
    for step in input.chunks_exact(STEP) {
        let part = &mut parts[usize::from(step[0] % 4)];
        let at = u32::from_le_bytes([step[1], step[2], step[3], 0]) as usize % part.len();
        let bytes = usize::from(step[0] >> 4).clamp(1, 8).min(part.len() - at);
        part[at..at + bytes].copy_from_slice(&step[4..4 + bytes]);
    }
    // The addresses of its parts are lies too, where the input asks for it; they are read as another's memory.
    let _ = window::of_own(parts[3].as_ptr().expose_provenance() as u64);
}
