//! The probes that tracers find: what the files say of them, and what a tracer reads there.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags, elf};
use vcmalloc_tests::{Ground, compile, library, machine};

type Elf<'data> = ElfFile64<'data, object::Endianness>;

/// A note of SystemTap's form.
#[derive(Debug, Clone)]
struct Probe {
    name: String,
    arguments: String,
    site: u64,
    base: u64,
    semaphore: u64,
}

fn probes(elf: &Elf) -> Vec<Probe> {
    let Some(section) = elf.section_by_name(".note.stapsdt") else { return Vec::new() };
    let endian = elf.endian();
    let mut notes = section.elf_section_header().notes(endian, elf.data()).unwrap().unwrap();
    let mut found = Vec::new();
    while let Some(note) = notes.next().unwrap() {
        assert_eq!((note.name(), note.n_type(endian).0), (&b"stapsdt"[..], 3));
        let (numbers, text) = note.desc().split_at(24);
        let number = |at: usize| u64::from_le_bytes(numbers[at * 8..][..8].try_into().unwrap());
        let mut texts = text.split(|byte| *byte == 0).map(|text| String::from_utf8(text.to_vec()).unwrap());
        assert_eq!(texts.next().unwrap(), "otel_memory");
        let (name, arguments) = (texts.next().unwrap(), texts.next().unwrap());
        found.push(Probe { name, arguments, site: number(0), base: number(1), semaphore: number(2) });
    }
    found
}

/// The place in the file of one of its addresses, and whether it is mapped writable and executable.
fn place(elf: &Elf, address: u64) -> (u64, bool, bool) {
    let segment = elf.segments().find(|segment| {
        let (_, bytes) = segment.file_range();
        address.wrapping_sub(segment.address()) < bytes
    });
    let segment = segment.expect("in the file, not in .bss");
    let SegmentFlags::Elf { p_flags, .. } = segment.flags() else { panic!("no flags") };
    let at = address - segment.address() + segment.file_range().0;
    (at, p_flags.contains(elf::PF_W), p_flags.contains(elf::PF_X))
}

fn churn(ground: Ground) -> PathBuf {
    let source = library::repository().join("tests/usdt/churn.c");
    compile::program(&source, ground, &["-pthread".into()]).unwrap()
}

#[test]
fn each_library_and_a_static_program_tell_where_the_probes_are() {
    let files = [
        library::our_shared().unwrap(),
        library::hardened().unwrap(),
        library::stand_in().unwrap(),
        churn(Ground::Static),
    ];
    for file in files {
        let data = fs::read(&file).unwrap();
        let elf = Elf::parse(&*data).unwrap();
        let found = probes(&elf);
        let names: Vec<&str> = found.iter().map(|probe| probe.name.as_str()).collect();
        assert_eq!(names, ["alloc", "free"], "{}", file.display());
        let base = elf.section_by_name(".stapsdt.base").expect("a base").address();
        for probe in found {
            let expected = if probe.name == "alloc" { "8@%rdi 8@%rsi 8@%rdx" } else { "8@%rdi" };
            assert_eq!((probe.arguments.as_str(), probe.base), (expected, base), "{}", file.display());
            let (site, _, executable) = place(&elf, probe.site);
            let bytes = &data[site as usize..][..12];
            assert_eq!(bytes, [0x90, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0xc3]);
            assert!(executable && probe.site % 4096 <= 4096 - 11, "the long nop crosses no page");
            let (semaphore, writable, _) = place(&elf, probe.semaphore);
            assert_eq!(&data[semaphore as usize..][..2], [0, 0]);
            assert!(writable);
        }
    }
}

/// A program that waits for work.
struct Churn {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    file: PathBuf,
}

impl Churn {
    fn start(ground: Ground, variables: &[(&str, &str)]) -> Churn {
        let program = churn(ground);
        let mut command: Command = machine::command(&program);
        ground.prepare(&mut command).unwrap();
        command.envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let file = match ground {
            Ground::Static => program,
            Ground::Hardened => library::hardened().unwrap(),
            _ => library::our_shared().unwrap(),
        };
        let mut churn = Churn { child, input, output, file: file.canonicalize().unwrap() };
        churn.wait();
        churn
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn wait(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    fn order(&mut self, count: usize, bytes: usize) {
        writeln!(self.input, "{count} {bytes}").unwrap();
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A tracer with breakpoints: raises the semaphore, and reads registers at the sites.
struct Tracer {
    pid: Pid,
    memory: fs::File,
    /// By name: where the site lies in memory.
    sites: Vec<(String, u64)>,
    semaphore: u64,
    /// Of `alloc`: block, bytes, weight.
    allocated: Vec<[u64; 3]>,
    freed: Vec<u64>,
}

impl Tracer {
    fn attach(churn: &Churn) -> Tracer {
        let pid = churn.pid();
        let data = fs::read(&churn.file).unwrap();
        let elf = Elf::parse(&*data).unwrap();
        let found = probes(&elf);
        let moved = first_mapping(pid, &churn.file, &elf);
        let memory = fs::File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).unwrap();
        let mut tracer = Tracer {
            pid,
            memory,
            sites: found.iter().map(|probe| (probe.name.clone(), moved + probe.site)).collect(),
            semaphore: moved + found[0].semaphore,
            allocated: Vec::new(),
            freed: Vec::new(),
        };
        ptrace::seize(pid, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(pid).unwrap();
        waitpid(pid, None).unwrap();
        tracer.put(0xcc, 1);
        ptrace::cont(pid, None).unwrap();
        tracer
    }

    /// Writes the byte at the sites, and the semaphore.
    fn put(&mut self, byte: u8, semaphore: u16) {
        self.sites.iter().for_each(|(_, site)| self.memory.write_all_at(&[byte], *site).unwrap());
        self.memory.write_all_at(&semaphore.to_le_bytes(), self.semaphore).unwrap();
    }

    /// Follows until the program has said that it is ready.
    fn follow(&mut self, churn: &mut Churn) {
        let ready = std::thread::scope(|scope| {
            let said = scope.spawn(|| churn.wait());
            while !said.is_finished() {
                self.step();
            }
            said.join()
        });
        ready.unwrap();
    }

    fn step(&mut self) {
        match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                let registers = ptrace::getregs(self.pid).unwrap();
                let at = |(_, site): &&(String, u64)| site + 1 == registers.rip;
                match self.sites.iter().find(at).map(|(name, _)| name.as_str()) {
                    Some("alloc") => self.allocated.push([registers.rdi, registers.rsi, registers.rdx]),
                    Some("free") => self.freed.push(registers.rdi),
                    _ => panic!("a trap at {:x}", registers.rip),
                }
                // The instruction that the breakpoint replaced does nothing.
                ptrace::cont(self.pid, None).unwrap();
            }
            WaitStatus::StillAlive => std::thread::sleep(Duration::from_micros(200)),
            other => panic!("{other:?}"),
        }
    }

    fn detach(&mut self) {
        ptrace::interrupt(self.pid).unwrap();
        loop {
            match waitpid(self.pid, None).unwrap() {
                WaitStatus::PtraceEvent(..) => break,
                _ => ptrace::cont(self.pid, None).unwrap(),
            }
        }
        self.put(0x90, 0);
        ptrace::detach(self.pid, None).unwrap();
    }
}

/// How far from where the file says it lies in memory.
fn first_mapping(pid: Pid, file: &Path, elf: &Elf) -> u64 {
    if elf.kind() == object::ObjectKind::Executable {
        return 0;
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| line.ends_with(&*file.to_string_lossy())).expect("mapped");
    u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()
}

/// Within five times what the samples deviate by: each stands for about the interval, and there are `n` of them.
fn is_close(sum: u64, bytes: f64, samples: usize) -> bool {
    (sum as f64 / bytes - 1.0).abs() < 5.0 / (samples as f64).sqrt()
}

#[test]
fn a_tracer_reads_blocks_sizes_and_weights_that_add_up_to_what_was_allocated() {
    const COUNT: usize = 400_000;
    for ground in [Ground::Preload, Ground::Hardened, Ground::Static, Ground::Locked] {
        for bytes in [100_usize, 2000, 400_000] {
            let count = COUNT / bytes.min(4000).div_ceil(100);
            let interval = (count * bytes / 1000).to_string();
            let mut churn = Churn::start(ground, &[("VCM_SAMPLE_INTERVAL", &interval)]);
            let mut tracer = Tracer::attach(&churn);
            churn.order(count, bytes);
            tracer.follow(&mut churn);
            let own: Vec<_> = tracer.allocated.iter().filter(|[_, size, _]| *size == bytes as u64).collect();
            let sum: u64 = own.iter().map(|[_, _, weight]| weight).sum();
            let name = format!("{} {bytes}: {} samples, {sum}", ground.name(), own.len());
            assert!(is_close(sum, (count * bytes) as f64, 1000), "{name}");
            for [_, size, weight] in &tracer.allocated {
                let size = *size as f64;
                let exact = size / -(-size / interval.parse::<f64>().unwrap()).exp_m1();
                assert!((*weight as f64 - exact).abs() <= 1.0, "{name}: {size} has {weight}, not {exact}");
            }
            let blocks: Vec<u64> = tracer.allocated.iter().map(|[block, ..]| *block).collect();
            assert_eq!(blocks, tracer.freed, "{name}: each is freed before the next");
            tracer.detach();
            // Nobody is told any more, and nothing is at the sites that could stop it.
            churn.order(count, bytes);
            churn.wait();
        }
    }
}

#[test]
fn who_does_not_raise_the_semaphore_is_told_nothing() {
    let mut churn = Churn::start(Ground::Preload, &[("VCM_SAMPLE_INTERVAL", "1")]);
    let mut tracer = Tracer::attach(&churn);
    tracer.memory.write_all_at(&[0, 0], tracer.semaphore).unwrap();
    churn.order(10_000, 100);
    tracer.follow(&mut churn);
    assert_eq!((tracer.allocated.len(), tracer.freed.len()), (0, 0));
    tracer.detach();
}

#[test]
fn bpftrace_sees_what_was_allocated() {
    let file = library::our_shared().unwrap().display().to_string();
    let can_trace = Path::new("/usr/bin/bpftrace").exists()
        && Command::new("/usr/bin/bpftrace")
            .args(["-e", &format!("uprobe:{file}:vcm_version {{ }} BEGIN {{ exit(); }}")])
            .output()
            .is_ok_and(|output| output.status.success());
    if !can_trace {
        return println!("left out: there is no bpftrace here, or the kernel does not let it in");
    }
    const COUNT: usize = 1_000_000;
    let mut churn = Churn::start(Ground::Preload, &[("VCM_SAMPLE_INTERVAL", "500000")]);
    let file = churn.file.display().to_string();
    let script = format!(
        "BEGIN {{ printf(\"begun\\n\"); }} \
         usdt:{file}:otel_memory:alloc {{ @allocs = count(); @weight = sum(arg2); }} \
         usdt:{file}:otel_memory:free {{ @frees = count(); }} \
         interval:s:60 {{ exit(); }}"
    );
    let mut tracer = Command::new("/usr/bin/bpftrace")
        .args(["-p", &churn.child.id().to_string(), "-e", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(tracer.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("begun") && output.read_line(&mut text).unwrap() > 0 {}
    assert!(text.contains("begun"), "{text}");
    churn.order(COUNT, 1000);
    churn.wait();
    nix::sys::signal::kill(Pid::from_raw(tracer.id() as i32), Signal::SIGINT).unwrap();
    std::io::Read::read_to_string(&mut output, &mut text).unwrap();
    tracer.wait().unwrap();
    let figure = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{text}"));
        line.trim().parse().unwrap()
    };
    let (allocs, frees) = (figure("@allocs:"), figure("@frees:"));
    assert_eq!(allocs, frees, "{text}");
    assert!(is_close(figure("@weight:"), (COUNT * 1000) as f64 + 3e6, 2000), "{text}");
}
