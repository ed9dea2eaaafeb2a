//! Our library's exports beside those of jemalloc, and what it asks of the C library.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol};
use vcmalloc_tests::library::{jemalloc, repository};

pub const THEIRS: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
/// Hooks of jemalloc's own unit tests, which Debian's build exports.
const ABSENT: &str = "je_test_hooks_";
type Elf<'data> = ElfFile64<'data, object::Endianness>;

fn with<T>(path: &Path, look: impl FnOnce(&Elf) -> T) -> Result<T, String> {
    let shown = path.display();
    let data = fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
    Elf::parse(&*data).map(|elf| look(&elf)).map_err(|error| format!("{shown}: {error}"))
}

fn exported(path: &Path) -> Result<BTreeSet<String>, String> {
    with(path, |elf| {
        let defined = elf.dynamic_symbols().filter(|symbol| symbol.is_definition());
        defined.filter_map(|symbol| Some(symbol.name().ok()?.to_string())).collect()
    })
}

pub fn names() -> Result<(), String> {
    let (ours, theirs) = (exported(&jemalloc()?)?, exported(Path::new(THEIRS))?);
    let missing: Vec<_> = theirs.difference(&ours).filter(|name| !name.starts_with(ABSENT)).collect();
    if theirs.len() < 40 || !missing.is_empty() {
        return Err(format!("{} of theirs, of which we lack {missing:?}", theirs.len()));
    }
    // By them programs tell that jemalloc serves them: no other library of ours has them.
    let others = exported(&vcmalloc_tests::library::our_shared()?)?;
    match others.iter().find(|name| name.starts_with("mallctl") || name.starts_with("malloc_stats_print")) {
        Some(name) => Err(format!("libvcmalloc.so exports {name}")),
        None => Ok(()),
    }
}

pub fn exports() -> Result<(), String> {
    let found = exported(&jemalloc()?)?;
    let path = repository().join("tests/golden/jemalloc-exports.txt");
    if std::env::var_os("RENEW_GOLDEN").is_some() {
        let lines = found.into_iter().collect::<Vec<_>>().join("\n");
        let text = format!("# Reviewed; `make golden` writes it.\n{lines}\n");
        return fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()));
    }
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}; run `make golden`", path.display()))?;
    let known: BTreeSet<String> =
        text.lines().filter(|line| !line.starts_with('#')).map(String::from).collect();
    let (new, gone): (Vec<_>, Vec<_>) =
        (found.difference(&known).collect(), known.difference(&found).collect());
    match new.is_empty() && gone.is_empty() {
        true => Ok(()),
        false => Err(format!("new {new:?}, gone {gone:?}; if that is meant, run `make golden`")),
    }
}

pub fn needed() -> Result<(), String> {
    let allowed = ["libc.so.6", "ld-linux-x86-64.so.2", "libdl.so.2", "libpthread.so.0"];
    let output = std::process::Command::new("readelf").arg("-d").arg(jemalloc()?).output();
    let text = String::from_utf8_lossy(&output.map_err(|error| error.to_string())?.stdout).into_owned();
    let bracketed = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_string());
    let named = |kind: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains(kind)).filter_map(bracketed).collect()
    };
    let strangers: Vec<_> =
        named("(NEEDED)").into_iter().filter(|name| !allowed.contains(&name.as_str())).collect();
    match strangers.is_empty() && named("(SONAME)") == ["libjemalloc.so.2"] {
        true => Ok(()),
        false => Err(format!("needed beside the C library: {strangers:?}; soname {:?}", named("(SONAME)"))),
    }
}

pub fn panics() -> Result<(), String> {
    let found: Vec<String> = with(&jemalloc()?, |elf| {
        let defined = elf.symbols().filter(|symbol| symbol.is_definition());
        let names: Vec<&str> = defined.filter_map(|symbol| symbol.name().ok()).collect();
        // The exports stand in another table: in a stripped library there would be nothing to find.
        let stripped = names.iter().all(|name| !name.contains("vcmalloc_core"));
        let panics = names.into_iter().filter(|name| name.contains("9panicking"));
        panics.chain(stripped.then_some("no full symbol table")).map(String::from).collect()
    })?;
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("panics are reachable: {found:#?}")),
    }
}
