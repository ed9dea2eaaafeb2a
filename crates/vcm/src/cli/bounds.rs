//! The arguments of `vcm bounds`.

use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vcm bounds osd.vct                       how little memory the blocks of this trace could have taken
  vcm bounds osd.vct --json                the same, and a thousand moments of it
  vcm bounds osd.vct --html bounds.html    the same as a page for a browser

Exit status:
  0  shown
  1  the trace cannot be read, or was cut off (what is there is shown)
  2  wrong arguments";

/// Show how little memory the blocks of a trace could have taken, by rules of placement. Nothing is run.
///
/// A page counts while a block that lives has a byte in it: what an allocator could at best hold in memory that puts
/// blocks by this rule and gives all else back at once.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Bounds {
    /// The trace ('vcm trace import' makes one)
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write a report, a page for any browser that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}
