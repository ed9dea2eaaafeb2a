//! One module per pattern; each says what it recreates.

pub mod beside;
pub mod buffers;
pub mod churn;
pub mod false_sharing;
pub mod fast_path;
pub mod growth;
pub mod hand_over;
pub mod large;
pub mod mixed_life;
pub mod slots;
pub mod small;
pub mod steps;
pub mod storage;
pub mod timed;
