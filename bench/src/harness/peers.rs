//! The newest peers from crates.io as libraries that can be preloaded.
//!
//! bench/peers names the crates. Cargo fetches their sources and runs their build scripts, and this module
//! links each static archive, whole, into a shared library. No Rust code is between a program and the peer: a
//! forwarding function would cost a peer a nanosecond that it does not cost its users.

use super::surroundings::own_bench;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use vcm_measure::allocators::Places;

/// How one peer is built.
pub struct Recipe {
    /// The feature of bench/peers.
    pub name: &'static str,
    package: &'static str,
    /// For the crate's build script, which offers no feature for it.
    environment: &'static [(&'static str, &'static str)],
    /// Names under which a crate hides the C functions, in the order of [`FAMILY`]; empty if it does not.
    hidden_as: &'static [&'static str],
}

/// The functions that a program may call and the libraries must therefore export.
const FAMILY: [&str; 8] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "malloc_usable_size",
];

const fn plain(name: &'static str, package: &'static str) -> Recipe {
    Recipe { name, package, environment: &[], hidden_as: &[] }
}

pub static RECIPES: [Recipe; 7] = [
    plain("jemalloc", "tikv-jemalloc-sys"),
    plain("mimalloc2", "libmimalloc-sys2"),
    plain("mimalloc3", "libmimalloc-sys2"),
    Recipe {
        name: "snmalloc",
        package: "snmalloc-sys",
        environment: &[],
        hidden_as: &[
            "sn_malloc",
            "sn_free",
            "sn_calloc",
            "sn_realloc",
            "sn_memalign",
            "sn_posix_memalign",
            "sn_aligned_alloc",
            "sn_malloc_usable_size",
        ],
    },
    Recipe {
        name: "mimalloc-pprof",
        package: "mimalloc-pprof",
        environment: &[],
        hidden_as: &[
            "mi_malloc",
            "mi_free",
            "mi_calloc",
            "mi_realloc",
            "mi_memalign",
            "mi_posix_memalign",
            "mi_aligned_alloc",
            "mi_usable_size",
        ],
    },
    Recipe {
        name: "rpmalloc",
        package: "rpmalloc-sys",
        environment: &[("CFLAGS", "-DENABLE_OVERRIDE=1")],
        hidden_as: &[],
    },
    Recipe {
        name: "tcmalloc",
        package: "libtcmalloc-sys",
        environment: &[],
        hidden_as: &[
            "TCMallocInternalMalloc",
            "TCMallocInternalFree",
            "TCMallocInternalCalloc",
            "TCMallocInternalRealloc",
            "TCMallocInternalMemalign",
            "TCMallocInternalPosixMemalign",
            "TCMallocInternalAlignedAlloc",
            "TCMallocInternalMallocSize",
        ],
    },
];

/// Builds the named peers, or all. A peer that does not build is reported and the others go on; it is an error
/// where it was asked for by name.
pub fn build(names: &[String], places: &Places) -> Result<()> {
    for name in names {
        let known = || RECIPES.iter().map(|recipe| recipe.name).collect::<Vec<_>>().join(", ");
        ensure!(
            RECIPES.iter().any(|recipe| recipe.name == name),
            "no peer is called `{name}`; there are {}",
            known()
        );
    }
    std::fs::create_dir_all(&places.built_peers)?;
    let chosen =
        RECIPES.iter().filter(|recipe| names.is_empty() || names.iter().any(|name| name == recipe.name));
    let mut failed = Vec::new();
    for recipe in chosen {
        match build_one(recipe, places) {
            Ok(version) => println!("{:<10} {version}", recipe.name),
            Err(error) => {
                println!("{:<10} not built: {error:#}", recipe.name);
                failed.push(recipe.name);
            }
        }
    }
    ensure!(names.is_empty() || failed.is_empty(), "not built: {}", failed.join(", "));
    Ok(())
}

/// The crate and version that a built peer was made of.
pub fn version_of(name: &str, places: &Places) -> Option<String> {
    let text = std::fs::read_to_string(places.built_peer(name).with_extension("version")).ok()?;
    Some(text.trim().to_owned())
}

fn build_one(recipe: &Recipe, places: &Places) -> Result<String> {
    let target = places.built_peers.join("build");
    let archive = compile(recipe, &target)?;
    let library = places.built_peer(recipe.name);
    let mut link = Command::new("c++");
    link.arg("-shared").arg("-o").arg(&library);
    link.args(["-Wl,--whole-archive".as_ref(), archive.path.as_os_str(), "-Wl,--no-whole-archive".as_ref()]);
    link.args(["-lpthread", "-ldl", "-lm", "-latomic"]);
    link.args(
        FAMILY.iter().zip(recipe.hidden_as).map(|(name, hidden)| format!("-Wl,--defsym={name}={hidden}")),
    );
    let output = link.output().context("cannot run c++; get it with `apt-get install g++`")?;
    ensure!(output.status.success(), "c++ does not link it: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(library.with_extension("version"), &archive.version)?;
    Ok(archive.version)
}

struct Archive {
    path: PathBuf,
    version: String,
}

/// Lets cargo build the crate, and finds in cargo's messages where its build script left the archive.
fn compile(recipe: &Recipe, target: &Path) -> Result<Archive> {
    let bench = own_bench().context("their list is bench/peers: run this in the repository of vcmalloc")?;
    let manifest = bench.join("peers/Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--message-format=json-render-diagnostics", "--features"]);
    cargo.arg(recipe.name).arg("--manifest-path").arg(manifest).arg("--target-dir").arg(target);
    cargo.envs(recipe.environment.iter().copied()).env_remove("CARGO_TARGET_DIR");
    let output = cargo.stderr(std::process::Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo does not build {}", recipe.package);

    let package = format!("#{}@", recipe.package);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        let Some((_, version)) = message["package_id"].as_str().and_then(|id| id.split_once(&package)) else {
            continue;
        };
        if message["reason"] == "build-script-executed" {
            let path = archive_of(&message).with_context(|| format!("{} left no archive", recipe.package))?;
            return Ok(Archive { path, version: format!("{} {version}", recipe.package) });
        }
    }
    bail!("cargo did not say what the build script of {} made", recipe.package)
}

/// The first static library that a build script's message names, in the directories that it names.
fn archive_of(message: &serde_json::Value) -> Option<PathBuf> {
    let texts = |key: &str| {
        let values = message[key].as_array().into_iter().flatten();
        values.filter_map(|value| value.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let libraries = texts("linked_libs");
    let library = libraries.iter().find_map(|library| library.strip_prefix("static="))?;
    let file = format!("lib{library}.a");
    let directories = texts("linked_paths").into_iter().chain(message["out_dir"].as_str().map(str::to_owned));
    directories
        .map(|directory| Path::new(directory.rsplit('=').next().unwrap_or(&directory)).join(&file))
        .find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_family_is_complete() {
        for recipe in &RECIPES {
            assert!(recipe.hidden_as.is_empty() || recipe.hidden_as.len() == FAMILY.len(), "{}", recipe.name);
        }
    }

    #[test]
    fn the_archive_is_found_in_the_directory_that_the_build_script_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libthing.a");
        std::fs::write(&path, "").unwrap();
        let message = serde_json::json!({
            "linked_libs": ["pthread", "static=thing"],
            "linked_paths": [format!("native={}", directory.path().display())],
        });
        assert_eq!(archive_of(&message), Some(path));
    }
}
