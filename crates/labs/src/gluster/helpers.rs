//! The small C programs that the lab needs beside Gluster's own, compiled where they are used.
//!
//! Owns their sources and what each is compiled with. They speak to libgfapi and libglusterfs, whose headers
//! come with the same package version as the daemons, so they are compiled on the machine and not shipped.

use crate::engine::process::Program;
use crate::engine::session::Session;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

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
    /// Once a run for this system's daemons; they go with the run's directory.
    pub fn compile(session: &Session) -> Result<Helpers> {
        let folder = session.directory().join("helpers");
        if !folder.exists() {
            session.make_directory(&folder)?;
            compile_all(session, &folder, None)?;
        }
        Ok(Helpers::in_folder(&folder))
    }

    /// For each cluster of another system below `root`, where its headers are. They go with the cluster's directory,
    /// which is seen there by the same name.
    pub fn compile_below(session: &Session, root: &Path, directory: &Path) -> Result<Helpers> {
        let folder = directory.join("helpers");
        if !folder.exists() {
            fs::create_dir(&folder)?;
            compile_all(session, &folder, Some(root))?;
        }
        Ok(Helpers::in_folder(&folder))
    }

    fn in_folder(folder: &Path) -> Helpers {
        let preload = |index: usize| folder.join(format!("{}.so", PRELOADS[index].0));
        Helpers {
            glusterd_children: preload(0),
            pools_off: preload(1),
            virtual_directories: preload(2),
            load: folder.join("load"),
        }
    }
}

fn compile_all(session: &Session, folder: &Path, root: Option<&Path>) -> Result<()> {
    for (name, source) in PRELOADS {
        let gcc = session.command("gcc").args(["-O2", "-shared", "-fPIC", "-o"]).root(root);
        compile(gcc.arg(folder.join(format!("{name}.so"))), folder, (name, source), &["-ldl"])?;
    }
    let gcc = session.command("gcc").args(["-O2", "-D_FILE_OFFSET_BITS=64", "-o"]).root(root);
    compile(gcc.arg(folder.join("load")), folder, ("load", LOAD), &["-lgfapi", "-lpthread"])
}

fn compile(compiler: Program, folder: &Path, (name, source): (&str, &str), libraries: &[&str]) -> Result<()> {
    let file = folder.join(format!("{name}.c"));
    fs::write(&file, source).with_context(|| format!("cannot write {}", file.display()))?;
    compiler.arg(&file).args(libraries).run().with_context(|| format!("cannot compile {name}.c"))?;
    Ok(())
}
