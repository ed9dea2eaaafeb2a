//! The library's own words about a program it serves.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use vcmalloc_tests::{Ground, library, run};

use crate::{MINUTE, Outcome};

/// A memory file that children inherit and that cannot grow: what `vcm run` passes to the program it starts.
fn proof_file() -> nix::Result<File> {
    let file = File::from(memfd_create(c"proof", MFdFlags::MFD_ALLOW_SEALING)?);
    nix::unistd::ftruncate(&file, 4096)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW))?;
    Ok(file)
}

/// `vcm run` believes the line that each process writes when the library starts.
pub fn run_proof(ground: Ground, folder: &Path) -> Outcome {
    if !ground.is_ours() || library::is_foreign() {
        return Ok(Vec::new());
    }
    let mut file = proof_file().map_err(|error| format!("no memory file: {error}"))?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "/bin/true; exec perl -e 'system(\"/bin/true\")'"]);
    ground.prepare(&mut command)?;
    let finished =
        run(command.env("VCM_RUN_PROOF", file.as_raw_fd().to_string()).current_dir(folder), MINUTE)?;
    finished.succeeded()?;
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).map_err(|error| error.to_string())?;
    let lines: Vec<&str> = text.trim_end_matches('\0').lines().collect();
    if lines.len() != 4 {
        return Err(format!(
            "a shell, a program, perl and its program should each write a line, not {lines:?}"
        ));
    }
    for line in &lines {
        let (version, rest) = line.split_once(" pid ").unwrap_or(("", ""));
        let words: Vec<&str> = rest.split(' ').collect();
        let front = words.get(4).copied().unwrap_or("");
        let right_front = match ground {
            Ground::Locked => front == "locked",
            _ => front == "locked" || front.starts_with("vcpu-"),
        };
        let form = words.len() > 5
            && words[5].starts_with('(')
            && line.ends_with(')')
            && version.starts_with("vcmalloc ")
            && version.ends_with(" (hardened)") == (ground == Ground::Hardened)
            && words[1..3] == ["malloc", "ours"];
        if !form || !right_front {
            return Err(format!(
                "not `vcmalloc <version> pid <pid> malloc ours front <front> (<why>)`: {line}"
            ));
        }
    }
    Ok(Vec::new())
}

pub fn statistics_at_exit(ground: Ground, folder: &Path) -> Outcome {
    if !ground.is_ours() || library::is_foreign() {
        return Ok(Vec::new());
    }
    let mut command = Command::new("perl");
    command.args(["-e", "my @a = map { 'x' x $_ } 1 .. 2000; print scalar @a"]);
    ground.prepare(&mut command)?;
    let finished = run(command.current_dir(folder).env("VCM_STATS_AT_EXIT", "1"), MINUTE)?;
    finished.succeeded()?;
    match (finished.text().as_str(), finished.complaints.lines().count()) {
        ("2000", 5..) => Ok(Vec::new()),
        (output, _) => {
            Err(format!("statistics on stderr and '2000' on stdout, not:\n{}\n{output}", finished.complaints))
        }
    }
}

/// The author of a config file that is not obeyed learns it, and no program waits for one.
pub fn config_file(ground: Ground, folder: &Path) -> Outcome {
    if !ground.is_ours() || library::is_foreign() {
        return Ok(Vec::new());
    }
    let wrong = |error: std::io::Error| error.to_string();
    let file = folder.join("vcmalloc.conf");
    std::fs::write(&file, "# all\nretain = lots\n\ncache_limit\ndouble_free_check = on\n").map_err(wrong)?;
    let pipe = folder.join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).map_err(|error| error.to_string())?;
    let cases: [(&Path, &[&str]); 4] = [
        (
            &file,
            &[
                "vcmalloc.conf:2: retain: 'lots'",
                "vcmalloc.conf:4: expected",
                "double_free_check has no effect any more: ",
            ],
        ),
        (folder, &["the file that VCM_CONFIG names cannot be read: "]),
        (&pipe, &[]),
        (Path::new("/dev/null"), &[]),
    ];
    for (config, expected) in cases {
        let mut command = Command::new("/bin/true");
        ground.prepare(&mut command)?;
        let finished = run(command.env("VCM_CONFIG", config), MINUTE)?;
        finished.succeeded()?;
        let said = &finished.complaints;
        let is_said = said.lines().count() == expected.len()
            && said.lines().zip(expected).all(|(line, words)| line.contains(words));
        if !is_said {
            return Err(format!("{}: not {expected:?} but:\n{said}", config.display()));
        }
    }
    Ok(Vec::new())
}
