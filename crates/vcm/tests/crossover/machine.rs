//! A machine in a folder: units, a systemctl that starts their commands, and what must be left of a comparison.

use crate::support::{self, Place, text, vcm};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Holds 20 MB and leaves a note of how many steps its allocator took, then does nothing.
const DAEMON: &str = "#include <malloc.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    #include <unistd.h>\n\
    extern long allocator_steps(void) __attribute__((weak));\n\
    int main(int count, char **words) {\n\
        for (int block = 0; block < 5000; block++) {\n\
            char *kept = malloc(4000);\n\
            memset(kept, 1, malloc_usable_size(kept));\n\
        }\n\
        char name[4096]; snprintf(name, sizeof name, \"%s/steps.%d\", words[1], getpid());\n\
        FILE *note = fopen(name, \"w\");\n\
        fprintf(note, \"%ld\\n\", allocator_steps ? allocator_steps() : 1); fclose(note);\n\
        for (;;) pause();\n\
    }";

pub struct Machine {
    pub place: Place,
    pub root: PathBuf,
    pub units: Vec<String>,
}

impl Machine {
    /// With running services a@0, a@1, ...
    pub fn new(units: usize) -> Machine {
        Machine::with(units, &[])
    }

    pub fn with(units: usize, flags: &[&str]) -> Machine {
        let place = Place::new();
        let root = place.path("machine");
        for folder in ["etc/systemd/system", "run/systemd/system", "bin", "usr/bin"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let built = place.program("daemon", DAEMON, flags);
        let daemon = root.join("usr/bin/daemon");
        support::install(&built, &daemon);
        // The machine's own name of it must be ours too: systemd would start it there.
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/support/systemctl");
        support::install(&script, &root.join("bin/systemctl"));
        let machine =
            Machine { root, units: (0..units).map(|number| format!("a@{number}")).collect(), place };
        for unit in &machine.units {
            let command = format!("{} {}", text(&built), text(&machine.root));
            let file = machine.unit(unit);
            fs::write(file, format!("[Service]\nExecStart={command}\n")).unwrap();
            machine.systemctl(&["start", unit]);
        }
        // Found below the folder by the path that the unit has.
        let inside = machine.root.join(text(&built).trim_start_matches('/'));
        fs::create_dir_all(inside.parent().unwrap()).unwrap();
        support::install(&built, &inside);
        machine
    }

    pub fn unit(&self, unit: &str) -> PathBuf {
        self.root.join(format!("etc/systemd/system/{unit}.service"))
    }

    pub fn drop_in(&self, unit: &str) -> PathBuf {
        self.root.join(format!("etc/systemd/system/{unit}.service.d/vcmalloc.conf"))
    }

    pub fn systemctl(&self, words: &[&str]) {
        let done = Command::new(self.root.join("bin/systemctl"))
            .args(words)
            .env("FAKE_ROOT", &self.root)
            .stdout(Stdio::null())
            .status();
        assert!(done.unwrap().success());
    }

    pub fn note(&self, name: &str) -> PathBuf {
        self.root.join("notes").join(name)
    }

    pub fn pid(&self, unit: &str) -> i32 {
        fs::read_to_string(self.note(&format!("{unit}.pid"))).unwrap().trim().parse().unwrap()
    }

    /// Nothing while the unit is restarted.
    pub fn maps(&self, unit: &str) -> String {
        let id = fs::read_to_string(self.note(&format!("{unit}.pid"))).unwrap_or_default();
        fs::read_to_string(format!("/proc/{}/maps", id.trim())).unwrap_or_default()
    }

    pub fn calls(&self) -> String {
        fs::read_to_string(self.note("calls")).unwrap_or_default()
    }

    pub fn state(&self) -> PathBuf {
        self.root.join("state/crossover.json")
    }

    pub fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = vcm(&["compare"]);
        command.args(arguments).args(["--root", text(&self.root), "--state", text(&self.state())]);
        command.env("FAKE_ROOT", &self.root);
        command.env("PATH", format!("{}:/usr/bin:/bin", text(&self.root.join("bin"))));
        command
    }

    pub fn compare(&self, units: &str, arms: &str, arguments: &[&str]) -> Command {
        let mut command = self.bare(&["--systemd", units, "--arms", arms]);
        command.args(arguments);
        command
    }

    /// No drop-in, no folder of one, no state, and every unit runs without a preload.
    pub fn is_as_before(&self) {
        for unit in &self.units {
            let folder = self.drop_in(unit).parent().unwrap().to_path_buf();
            assert!(!folder.exists(), "{} is left", folder.display());
            let maps = self.maps(unit);
            assert!(
                !maps.is_empty() && !maps.contains(".so.c") && !maps.contains("planted"),
                "{unit}: {maps}"
            );
        }
    }

    pub fn is_forgotten(&self) {
        assert!(!self.state().exists(), "the state is left");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for unit in &self.units {
            self.systemctl(&["stop", unit]);
        }
    }
}
