//! The arguments of `vcm bounds`.

use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vcm bounds osd.vct                       the least memory that the blocks of this trace need
  vcm bounds osd.vct --json                the same over time, at a thousand points
  vcm bounds osd.vct --html bounds.html    the same as an HTML page

Exit status:
  0  shown
  1  the trace cannot be read, or is truncated (its readable part is shown)
  2  wrong arguments";

/// Show the least memory that the blocks of a trace need, by placement rule. Runs nothing.
///
/// A page counts while a live block has a byte in it: the memory of an ideal allocator that places blocks by this rule
/// and releases everything else at once.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Bounds {
    /// Trace to read ('vcm record' or 'vcm trace import' writes one)
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write an HTML report that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}
