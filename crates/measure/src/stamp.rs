//! The identity of an allocator in a running process, for reports: name, version, build, settings, how it came there.

use crate::arm::Arm;
use object::Object;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use vcm_inspect::allocator::Allocator;
use vcm_inspect::loaded::BroughtBy;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub allocator: String,
    pub version: Option<String>,
    pub file: PathBuf,
    /// The linker's number of the file, in hexadecimal digits.
    pub build_id: Option<String>,
    pub loaded_by: String,
    /// Variables, LD_PRELOAD among them.
    pub environment: BTreeMap<String, String>,
}

impl Stamp {
    pub fn of(arm: &Arm, serving: &Allocator) -> Stamp {
        Stamp {
            allocator: serving.kind.name().to_owned(),
            version: serving.version.clone(),
            file: serving.object.clone(),
            build_id: build_id(&serving.object),
            loaded_by: match serving.brought_by {
                BroughtBy::Program => "built into the program",
                BroughtBy::Preload => "preloaded",
                BroughtBy::Linked => "linked",
                BroughtBy::Later => "preloaded, or opened later",
            }
            .to_owned(),
            environment: arm.environment().into_iter().collect(),
        }
    }
}

pub fn build_id(file: &Path) -> Option<String> {
    let cache = vcm_foreign::elf::Parts::open(file).ok()?;
    let elf = object::read::elf::ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    let id = elf.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_has_a_build_id_and_a_text_has_none() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps
            .lines()
            .find_map(|line| Some(&line[line.find('/')?..]).filter(|path| path.ends_with("libc.so.6")));
        let id = build_id(Path::new(libc.unwrap())).unwrap();
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert_eq!(build_id(Path::new("/etc/passwd")), None);
    }
}
