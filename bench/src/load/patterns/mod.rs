//! One module per pattern; each says what it recreates.

pub mod fast_path;
pub mod hand_over;
pub mod large;
pub mod slots;
pub mod storage;
