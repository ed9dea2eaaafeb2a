//! How an arm is put under a service for good, and the command that proves it.

use crate::table::Runs;
use std::ffi::OsString;
use vcm_foreign::Shown;
use vcm_front::say;

/// The lines to write, and the proof.
pub fn applied(runs: &Runs, command: &[OsString]) -> (String, String) {
    (snippet(runs), proof(runs, command))
}

/// The lines to write, for a unit and for a container.
fn snippet(runs: &Runs) -> String {
    let environment = runs.arm.environment();
    if environment.is_empty() {
        return "  nothing to set: the program already has it\n".to_owned();
    }
    let mut text = String::from(
        "  systemd, in /etc/systemd/system/UNIT.d/allocator.conf, then 'systemctl daemon-reload':\n",
    );
    text += "    [Service]\n";
    for (name, value) in &environment {
        text += &format!("    Environment=\"{name}={value}\"\n");
    }
    if runs.arm.is_ours {
        text += "  ('vcm enable UNIT' writes one and checks it)\n";
    }
    text += "  a container, with the library in its image:\n    docker run";
    for (name, value) in &environment {
        text += &format!(" -e {}", say::typed([format!("{name}={value}")]));
    }
    text + " IMAGE\n"
}

/// The command that shows that it took.
pub fn proof(runs: &Runs, command: &[OsString]) -> String {
    let words = || command.iter().map(|word| word.shown().printed());
    let Some(library) = runs.arm.library.as_ref() else {
        return "vcm doctor".to_owned();
    };
    if runs.arm.is_ours {
        let settings = runs.arm.settings.iter().filter_map(|(name, value)| {
            Some(format!("{}={value}", name.strip_prefix("VCM_")?.to_lowercase()))
        });
        let options = settings.flat_map(|setting| ["--option".to_owned(), setting]);
        let library = ["--library".to_owned(), library.shown().to_string()];
        let own =
            ["vcm", "run", "-v", "--strict"].map(str::to_owned).into_iter().chain(library).chain(options);
        let whole = own.chain(["--".to_owned()]).chain(words());
        return format!("{}   (a running daemon: vcm doctor)", say::typed(whole));
    }
    let program = command.first().map(|word| std::path::Path::new(word).file_name().unwrap_or(word));
    let program = program.unwrap_or_default().shown().printed();
    let maps = format!("/proc/$(pidof -s {})/maps", say::typed([program]));
    format!("grep -m1 -F {} {maps}", say::typed([library.shown().to_string()]))
}
