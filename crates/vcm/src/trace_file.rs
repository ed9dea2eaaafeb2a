//! Traces as files: one to read is opened, one to write gets its name only when it is whole.

use crate::whole_file;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read};
use std::path::Path;
use vcm_foreign::Shown;
use vcm_front::say::{FAILURE, Failure};
use vcm_measure::replace::Replacement;
use vcm_trace::{Error, Reader};

const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const LZ4: [u8; 4] = [0x04, 0x22, 0x4D, 0x18];

/// The fault of a trace, with the trace's name.
pub fn wrong(path: &Path, error: &Error) -> Failure {
    Failure::new(FAILURE, format!("{}: {error}", path.shown()))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(FAILURE, format!("{}: {error}", path.shown()))
}

pub fn open(path: &Path) -> Result<Reader<BufReader<File>>, Failure> {
    let file = File::open(path).map_err(|error| failed(path, &error))?;
    Reader::new(BufReader::with_capacity(1 << 18, file)).map_err(|error| wrong(path, &error))
}

/// Opens a trace once more.
pub fn again(path: &Path) -> vcm_trace::Result<Reader<BufReader<File>>> {
    Reader::new(BufReader::with_capacity(1 << 18, File::open(path)?))
}

/// Opens a file that may be packed, which its first bytes tell.
pub fn open_packed(path: &Path) -> Result<Box<dyn Read>, Failure> {
    let act = || {
        let mut input = BufReader::with_capacity(1 << 20, File::open(path)?);
        let begin: [u8; 4] = input.fill_buf()?.first_chunk().copied().unwrap_or_default();
        Ok(match begin {
            ZSTD => Box::new(BufReader::with_capacity(1 << 20, zstd::Decoder::with_buffer(input)?))
                as Box<dyn Read>,
            LZ4 => Box::new(BufReader::with_capacity(1 << 20, lz4_flex::frame::FrameDecoder::new(input))),
            _ => Box::new(input),
        })
    };
    act().map_err(|error| failed(path, &error))
}

/// Writes a file: under another name until it is whole, so that nothing is lost where it fails. `source` is what is read meanwhile.
pub fn write<T>(
    path: &Path,
    source: &Path,
    fill: impl FnOnce(BufWriter<File>) -> Result<(BufWriter<File>, T), Failure>,
) -> Result<T, Failure> {
    whole_file::is_other(path, source)?;
    let (replacement, file) = Replacement::begin(path, 0o644).map_err(|error| failed(path, &error))?;
    let (out, value) = fill(BufWriter::with_capacity(1 << 18, file))?;
    let file = out.into_inner().map_err(|error| failed(path, error.error()))?;
    replacement.end(&file).map_err(|error| failed(path, &error))?;
    Ok(value)
}
