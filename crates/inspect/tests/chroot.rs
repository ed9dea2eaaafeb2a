//! The allocator of a process that lives in another system's root, as a daemon of another Debian does.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use vcm_inspect::allocator::{self, Kind};
use vcm_inspect::loaded;
use vcm_inspect::process::Process;

fn gcc(arguments: &[&str], output: &Path, source: &str) {
    let file = output.with_extension("c");
    fs::write(&file, source).unwrap();
    let done = Command::new("gcc").args(arguments).arg("-o").arg(output).arg(&file).status().unwrap();
    assert!(done.success());
}

/// Has the library preloaded, and is in the folder as its root when this comes back.
fn in_a_chroot(program: &Path, root: &Path, library: &Path) -> Child {
    let mut command = Command::new(program);
    command.arg(root).env("LD_PRELOAD", library).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

#[test]
fn our_library_under_tcmallocs_name_in_a_chroot_is_ours() {
    if !nix::unistd::geteuid().is_root() {
        return vcmalloc_tests::skip!("only root can change the root");
    }
    let folder = tempfile::tempdir().unwrap();
    let (program, library) = (folder.path().join("daemon"), folder.path().join("lib/libtcmalloc.so.4"));
    fs::create_dir(folder.path().join("lib")).unwrap();
    let waits = "#include <unistd.h>\nint main(int n, char **words) { char c; \
                 return chroot(words[1]) || chdir(\"/\") || write(1, \"x\", 1) < 0 || read(0, &c, 1); }";
    gcc(&[], &program, waits);
    let of = |symbols: &str| {
        let source = format!("void *malloc(unsigned long bytes) {{ return 0; }}\n{symbols}");
        gcc(&["-w", "-shared", "-fPIC", "-nostdlib"], &library, &source);
        let mut child = in_a_chroot(&program, folder.path(), &library);
        let process = Process::new(child.id() as i32);
        let loaded = loaded::of(&process, process.environment().ok().as_deref()).unwrap();
        let answer = allocator::of(&loaded);
        drop(child.stdin.take());
        child.wait().unwrap();
        answer.kind()
    };
    let theirs = "int tc_version(void) { return 0; }\nvoid _ZN15MallocExtension8instanceEv(void) {}\n";
    assert_eq!(of(theirs), Some(Kind::TcmallocMinimal));
    assert_eq!(of(&format!("{theirs}int vcm_version(void) {{ return 0; }}")), Some(Kind::StandIn));
}
