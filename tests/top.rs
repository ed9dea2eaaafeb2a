//! `vcm top` in a terminal, which is tmux: it shows, sorts, filters, opens, bears any size, and gives the terminal back.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use vcmalloc_tests::{Ground, compile, library, machine};

/// Programs on the library, ended with the test.
struct Programs(Vec<Child>);

impl Programs {
    fn start(megabytes: &[&str]) -> Programs {
        let source = library::repository().join("tests/window/grows.c");
        let program =
            compile::program(&source, Ground::Preload, &[]).unwrap_or_else(|error| panic!("{error}"));
        let start = |megabytes: &&str| {
            let mut command = machine::command(&program);
            Ground::Preload.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
            let mut child =
                command.arg(megabytes).stdout(Stdio::piped()).spawn().expect("the program starts");
            let out = child.stdout.take().expect("a pipe");
            BufReader::new(out).read_line(&mut String::new()).expect("it says when it is ready");
            child
        };
        Programs(megabytes.iter().map(start).collect())
    }

    fn ids(&self) -> Vec<String> {
        self.0.iter().map(|child| child.id().to_string()).collect()
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A server of tmux of our own, ended with the test.
struct Terminal(String);

impl Terminal {
    fn start(name: &str, command: &str) -> Terminal {
        let terminal = Terminal(format!("vcm-top-{name}-{}", std::process::id()));
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", command]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let command = Command::new("tmux").args(["-L", &self.0]).args(arguments).output();
        let output = command.expect("tmux is there: apt-get install tmux");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// The screen, as soon as it is as wanted.
    fn when(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        for _ in 0..600 {
            screen = self.tmux(&["capture-pane", "-p"]);
            if is_wanted(&screen) {
                return screen;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what}: never seen\n{screen}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.0, "kill-server"]).output();
    }
}

fn tool() -> String {
    library::tool().unwrap_or_else(|error| panic!("{error}")).display().to_string()
}

/// Whether these numbers stand in this order.
fn are_in_order(screen: &str, ids: &[&String]) -> bool {
    let places: Option<Vec<usize>> = ids.iter().map(|id| screen.find(&format!(" {id} "))).collect();
    places.is_some_and(|places| places.is_sorted())
}

#[test]
fn the_list_sorts_filters_opens_bears_any_size_and_gives_the_terminal_back() {
    let programs = Programs::start(&["8", "48", "24"]);
    let ids = programs.ids();
    let command = format!("{} top -i 0.2; echo over $?; stty -a | grep -ow '.*icanon'; sleep 600", tool());
    let terminal = Terminal::start("keys", &command);
    let sized = [&ids[1], &ids[2], &ids[0]];
    let screen = terminal.when("by RSS", |screen| are_in_order(screen, &sized));
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(screen.contains("q quit"), "{screen}");
    terminal.keys(&["r"]);
    terminal.when("reversed", |screen| are_in_order(screen, &[&ids[0], &ids[2], &ids[1]]));
    terminal.keys(&["/"]);
    terminal.keys(&["-l", &ids[2]]);
    terminal
        .when("filtered", |screen| screen.contains(&format!(" {} ", ids[2])) && !screen.contains(&ids[0]));
    terminal.keys(&["Enter"]);
    terminal.when("typed", |screen| !screen.contains("filter: "));
    terminal.keys(&["Enter"]);
    let detail = terminal.when("detail", |screen| screen.contains("vCPU caches") && screen.contains("now"));
    assert!(detail.starts_with(&ids[2]) && detail.contains('█'), "{detail}");
    terminal.keys(&["h"]);
    terminal.when("help", |screen| screen.contains("Letters select the sort column"));
    for (wide, high) in [("160", "50"), ("30", "6"), ("2", "1"), ("100", "30")] {
        for page in ["h", "Escape", "Enter", "Escape"] {
            terminal.tmux(&["resize-window", "-x", wide, "-y", high]);
            terminal.keys(&[page]);
        }
    }
    terminal.when("still there", |screen| screen.contains("on vcmalloc"));
    terminal.keys(&["q"]);
    terminal.when("the end", |screen| screen.contains("over 0") && screen.contains(" icanon"));
}

#[test]
fn ctrl_c_and_a_signal_give_the_terminal_back_and_a_closed_one_ends_it() {
    let command = format!("{} top; echo over $?; stty -a | grep -ow '.*icanon'; sleep 600", tool());
    let is_back = |code: &str, screen: &str| {
        screen.contains(&format!("over {code}")) && screen.contains(" icanon") && !screen.contains("-icanon")
    };
    let terminal = Terminal::start("interrupt", &command);
    terminal.when("shown", |screen| screen.contains("q quit"));
    terminal.keys(&["C-c"]);
    terminal.when("the end", |screen| is_back("0", screen));
    // SIGTERM from outside; the tool is the child of the terminal's shell.
    let started = |terminal: &Terminal| -> i32 {
        terminal.when("shown", |screen| screen.contains("q quit"));
        let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]).trim().to_string();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        children.expect("children").trim().parse().expect("one child")
    };
    let terminal = Terminal::start("signal", &command);
    // SAFETY: sends a signal to a process that this test started.
    unsafe { libc::kill(started(&terminal), libc::SIGTERM) };
    terminal.when("the end", |screen| is_back("143", screen));
    let terminal = Terminal::start("closed", &command);
    let id = started(&terminal);
    drop(terminal);
    for _ in 0..600 {
        if !std::path::Path::new(&format!("/proc/{id}")).exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{id} goes on without its terminal");
}

#[test]
fn without_a_terminal_it_prints_one_round_as_a_table_or_json() {
    let programs = Programs::start(&["8"]);
    let id = programs.ids().remove(0);
    let shown = |arguments: &[&str]| {
        let output = Command::new(tool()).arg("top").args(arguments).output().expect("vcm starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let table = shown(&["--filter", &id]);
    let row = table.lines().nth(1).unwrap_or_default();
    assert!(row.trim_start().starts_with(&id) && row.contains("shared"), "{table}");
    let object: Value = serde_json::from_str(&shown(&["--json", "--filter", &id])).expect("JSON");
    let found = &object["processes"][0];
    assert_eq!(found["pid"].to_string(), id);
    assert!(
        found["live_requested"].as_u64() > Some(7 << 20)
            && found["rss"].as_u64() >= found["resident"].as_u64()
    );
}
