//! The small C programs that the lab needs beside Gluster's own, compiled where they are used.
//!
//! Owns their sources and what each is compiled with. They speak to libgfapi and libglusterfs, whose headers
//! come with the same package version as the daemons, so they are compiled on the machine and not shipped.

use crate::engine::session::Session;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

pub struct Helpers {
    /// Preloaded into glusterd.
    pub glusterd_children: PathBuf,
    /// Preloaded into bricks to turn Gluster's own pools off.
    pub pools_off: PathBuf,
    /// Preloaded into bricks where the limit of open files is low.
    pub virtual_directories: PathBuf,
    /// The load.
    pub load: PathBuf,
}

const PRELOADS: [(&str, &str); 3] = [
    ("glusterd_children", include_str!("helpers/glusterd_children.c")),
    ("pools_off", include_str!("helpers/pools_off.c")),
    ("virtual_directories", include_str!("helpers/virtual_directories.c")),
];
const LOAD: &str = include_str!("helpers/load.c");

impl Helpers {
    /// Once a run; they go with the run's directory.
    pub fn compile(session: &Session) -> Result<Helpers> {
        let folder = session.directory().join("helpers");
        if !folder.exists() {
            session.make_directory(&folder)?;
            for (name, source) in PRELOADS {
                compile(session, name, source, &format!("{name}.so"), &["-shared", "-fPIC"], &["-ldl"])?;
            }
            let flags = ["-D_FILE_OFFSET_BITS=64"];
            compile(session, "load", LOAD, "load", &flags, &["-lgfapi", "-lpthread"])?;
        }
        let preload = |index: usize| folder.join(format!("{}.so", PRELOADS[index].0));
        Ok(Helpers {
            glusterd_children: preload(0),
            pools_off: preload(1),
            virtual_directories: preload(2),
            load: folder.join("load"),
        })
    }
}

fn compile(
    session: &Session,
    name: &str,
    source: &str,
    into: &str,
    flags: &[&str],
    libraries: &[&str],
) -> Result<()> {
    let folder = session.directory().join("helpers");
    let file = folder.join(format!("{name}.c"));
    fs::write(&file, source).with_context(|| format!("cannot write {}", file.display()))?;
    let compiler = session.command("gcc").arg("-O2").args(flags).arg("-o").arg(folder.join(into));
    compiler.arg(&file).args(libraries).run().with_context(|| format!("cannot compile {name}.c"))?;
    Ok(())
}
