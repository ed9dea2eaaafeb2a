//! The programs that are measured, declared once each.

/// The sets of rows that answer one question, as `--only` names them.
pub const SETS: [(&str, &str); 5] = [
    ("whole", "CPU time and peak memory of whole programs on each allocator"),
    ("hardened", "the rows that say what checking every block costs"),
    ("watching", "the rows that say what a profile and a tracer cost"),
    ("idle", "memory that is held when a program idles after a burst"),
    ("rust", "programs in Rust, each with a global allocator of its own"),
];

/// A program, how it is run, and what counts.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// As typed after --only and as printed.
    pub name: &'static str,
    /// Of [`SETS`].
    pub sets: &'static [&'static str],
    /// Programs on the path, `python3:MODULE`, or tools that are compiled here; a word `{NAME}` of the command is its path.
    pub needs: &'static [&'static str],
    /// Those of `inputs::make` that are made before the first round.
    pub made: &'static [&'static str],
    pub command: &'static [&'static str],
    /// Standard input.
    pub input: &'static str,
    pub environment: &'static [(&'static str, &'static str)],
    /// A folder of its own that goes before each run.
    pub scratch: &'static str,
    pub server: Option<Server>,
    /// Most threads and processes that work at a time.
    pub threads: u32,
    /// How many, and of what, a run does.
    pub operations: (u64, &'static str),
    pub figure: Figure,
    /// PostgreSQL refuses root.
    pub is_unprivileged: bool,
}

/// A program that is loaded from outside.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// It can take its load when it has printed this; nothing: when it listens at `{port}`.
    pub ready: &'static str,
    /// A line for the shell.
    pub load: &'static str,
    /// The load holds its connections once it has printed this.
    pub loaded: &'static str,
    pub idle_seconds: u64,
    pub end: Ending,
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Terminated,
    Interrupted,
    Input,
}

/// What a row is there for, besides CPU time and peak memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Cpu,
    /// Nanoseconds of a malloc and free, as the program prints them.
    Pair,
    /// Anonymous memory after the idle seconds.
    Held,
    /// The program has its allocator built in, says which, and prints what it computed.
    Crate,
}

const fn run(
    name: &'static str,
    needs: &'static [&'static str],
    command: &'static [&'static str],
) -> Program {
    Program {
        name,
        sets: &["whole"],
        needs,
        made: &[],
        command,
        input: "",
        environment: &[],
        scratch: "",
        server: None,
        threads: 1,
        operations: (1, "run"),
        figure: Figure::Cpu,
        is_unprivileged: false,
    }
}

/// A kind of bench/programs/crowd.cc.
const fn crowd(
    name: &'static str,
    words: &'static [&'static str],
    threads: u32,
    does: u64,
    what: &'static str,
) -> Program {
    run(name, &["crowd"], words).on(threads).does(does, what)
}

/// A program of bench/rust.
const fn rust(
    name: &'static str,
    words: &'static [&'static str],
    threads: u32,
    does: u64,
    what: &'static str,
) -> Program {
    let program = run(name, &["rust"], words).on(threads).does(does, what).of(&["rust"]);
    Program { figure: Figure::Crate, ..program }
}

/// A server at `{port}` that is loaded and asked to end.
const fn server(
    name: &'static str,
    needs: &'static [&'static str],
    command: &'static [&'static str],
    load: &'static str,
) -> Program {
    let server = Server { ready: "", load, loaded: "", idle_seconds: 0, end: Ending::Terminated };
    Program { server: Some(server), ..run(name, needs, command) }
}

/// A program that holds memory once it has printed `ready`, until its input ends or its server is asked to end.
const fn idle(
    name: &'static str,
    needs: &'static [&'static str],
    command: &'static [&'static str],
    load: &'static str,
) -> Program {
    let end = if load.is_empty() { Ending::Input } else { Ending::Terminated };
    let (ready, load) = if load.is_empty() { ("ready", "true") } else { ("", load) };
    let server = Server { ready, load, loaded: "", idle_seconds: 5, end };
    Program { server: Some(server), figure: Figure::Held, sets: &["idle"], ..run(name, needs, command) }
}

impl Program {
    const fn of(self, sets: &'static [&'static str]) -> Self {
        Program { sets, ..self }
    }

    const fn does(self, many: u64, what: &'static str) -> Self {
        Program { operations: (many, what), ..self }
    }

    const fn on(self, threads: u32) -> Self {
        Program { threads, ..self }
    }

    const fn reads(self, input: &'static str) -> Self {
        Program { input, ..self }
    }

    const fn from(self, made: &'static [&'static str]) -> Self {
        Program { made, ..self }
    }

    const fn with(self, environment: &'static [(&'static str, &'static str)]) -> Self {
        Program { environment, ..self }
    }

    const fn clearing(self, scratch: &'static str) -> Self {
        Program { scratch, ..self }
    }

    /// Its load stays connected while it idles for so long.
    const fn held(self, idle_seconds: u64, loaded: &'static str, ready: &'static str, end: Ending) -> Self {
        match self.server {
            Some(server) => {
                Program { server: Some(Server { ready, loaded, idle_seconds, end, ..server }), ..self }
            }
            None => self,
        }
    }

    const fn unprivileged(self) -> Self {
        Program { is_unprivileged: true, ..self }
    }
}

const WHOLE_AND_HARDENED: &[&str] = &["whole", "hardened"];
const HARDENED: &[&str] = &["hardened"];
const WATCHING: &[&str] = &["watching"];
const OWN_MALLOC: &[(&str, &str)] = &[("PYTHONMALLOC", "malloc")];
const PYTHON: &[&str] = &["{python3}", "tree.py"];
const TREES: (u64, &str) = (12, "trees of 16,383 nodes, then 200,000 strings");
const REDIS: &[&str] =
    &["redis-server", "--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
const IDLE_REDIS: &[&str] = &[
    "redis-server",
    "--port",
    "{port}",
    "--bind",
    "127.0.0.1",
    "--save",
    "",
    "--appendonly",
    "no",
    "--activedefrag",
    "no",
];
const POSTGRES: &[&str] = &[
    "{postgres}",
    "-D",
    "data",
    "-k",
    "{folder}",
    "-c",
    "listen_addresses=",
    "-c",
    "shared_buffers=16MB",
    "-c",
    "work_mem=256MB",
    "-c",
    "jit=off",
    "-c",
    "autovacuum=off",
    "-c",
    "fsync=off",
    "-c",
    "max_connections=10",
];
const POSTGRES_NEEDS: &[&str] = &["postgres", "initdb", "psql"];
const POSTGRES_READY: &str = "ready to accept connections";
/// Four sessions that sort once and stay.
const SORTS: &str = "for n in 1 2 3 4; do (echo 'select count(*) from (select md5(g::text) m from generate_series(1, 600000) g order by m) t;'; \
    echo '\\echo loaded'; sleep 600) | {psql} -h {folder} -U idle -d postgres -qAtX & done; wait";
/// The same with fifty trivial questions, ten a second.
const SORTS_AND_MORE: &str = "for n in 1 2 3 4; do (echo 'select count(*) from (select md5(g::text) m from generate_series(1, 600000) g order by m) t;'; \
    for i in $(seq 50); do sleep 0.1; echo 'select 1;'; done; echo '\\echo loaded'; sleep 600) | {psql} -h {folder} -U idle -d postgres -qAtX & done; wait";
const FOUR_LOADED: &str = "(?s)(loaded.*){4}";
/// Twelve requests, four at a time, so that each of four children gets some; each answers with its number.
const HTTP: &str = "for n in 1 2 3; do for m in 1 2 3 4; do curl -s http://127.0.0.1:{port}/ & done; wait; done | sort -u | wc -l | grep -qx 4";
const FASTCGI: &str = "for n in 1 2 3; do for m in 1 2 3 4; do SCRIPT_FILENAME={folder}/rows.php SCRIPT_NAME=/ REQUEST_METHOD=GET \
    cgi-fcgi -bind -connect 127.0.0.1:{port} & done; wait; done | grep -E '^[0-9]+' | sort -u | wc -l | grep -qx 4";

/// All of them, in the order of the tables. Words and inputs are those of the scripts before 2026-11-28 to the byte, but for the
/// text of xz and zstd and git's repository, which were this repository's own and changed with it.
#[rustfmt::skip]
pub static PROGRAMS: &[Program] = &[
    run("perl, a hash", &["perl"], &["perl", "-e", include_str!("../../programs/inputs/hash.pl")])
        .of(WHOLE_AND_HARDENED).does(150_000, "keys set, sorted and read"),
    run("lua", &["lua5.4"], &["lua5.4", "-e", include_str!("../../programs/inputs/tables.lua")])
        .of(WHOLE_AND_HARDENED).does(400_000, "tables, then 200,000 strings"),
    run("python", &["python3"], PYTHON).from(&["tree.py"]).of(WHOLE_AND_HARDENED).does(TREES.0, TREES.1),
    run("python, PYTHONMALLOC=malloc", &["python3"], PYTHON).from(&["tree.py"]).with(OWN_MALLOC)
        .of(WHOLE_AND_HARDENED).does(TREES.0, TREES.1),
    run("ruby, objects", &["ruby"], &["ruby", "-e", include_str!("../../programs/inputs/objects.rb")])
        .does(6, "trees of 32,767 nodes, then 120,000 strings"),
    run("ruby, strings", &["ruby"], &["ruby", "-e", include_str!("../../programs/inputs/strings.rb")])
        .does(60, "strings that grow and are split, then 400 arrays"),
    run("gawk", &["gawk"], &["gawk", include_str!("../../programs/inputs/keys.awk")]).does(400_000, "appends to an array"),
    run("bc", &["bc"], &["bc"]).reads(include_str!("../../programs/inputs/factorial.bc"))
        .does(403_000, "multiplications"),
    run("jq", &["jq"], &["jq", "map({(.name): .tags}) | add | length", "rows.json"]).from(&["rows.json"])
        .of(WHOLE_AND_HARDENED).does(60_000, "objects"),
    run("g++", &["g++"], &["g++", "-O1", "-fsyntax-only", "rows.cc"]).from(&["rows.cc"]).does(1, "file"),
    run("g++, code", &["g++"], &["g++", "-O1", "-c", "-o", "/dev/null", "rows.cc"]).from(&["rows.cc"]).of(HARDENED).does(1, "file"),
    run("z3", &["z3"], &["z3", "-in"]).reads(include_str!("../../programs/inputs/search.smt2")).does(1, "formula"),
    run("sqlite3", &["sqlite3"], &["sqlite3", ":memory:"]).reads(include_str!("../../programs/inputs/rows.sql"))
        .of(WHOLE_AND_HARDENED).does(200_000, "rows inserted, indexed, changed and halved"),
    run("db_bench, fill", &["db_bench"], &["db_bench", "--benchmarks=fillrandom,compact,readrandom", "--db=db", "--value_size=200",
        "--write_buffer_size=4194304", "--compression_type=none", "--cache_size=8388608", "--num=80000"])
        .clearing("db").on(2).does(160_000, "keys written or read"),
    run("db_bench, read while writing", &["db_bench"], &["db_bench", "--benchmarks=fillseq,readwhilewriting", "--db=db",
        "--value_size=200", "--write_buffer_size=4194304", "--compression_type=none", "--cache_size=8388608", "--num=15000",
        "--threads=4", "--disable_wal=1"]).clearing("db").on(5).does(120_000, "keys written or read"),
    run("db_bench, overwrite", &["db_bench"], &["db_bench", "--db=db", "--benchmarks=fillrandom,readrandom,overwrite",
        "--num=100000", "--value_size=200", "--write_buffer_size=4194304", "--compression_type=none"])
        .clearing("db").of(HARDENED).on(2).does(300_000, "keys written or read"),
    server("redis", &["redis-server", "redis-benchmark"], REDIS,
        "redis-benchmark -p {port} -q -n 40000 -r 100000 -P 16 -d 200 -t set,get,lpush,hset,zadd")
        .of(WHOLE_AND_HARDENED).does(200_000, "requests"),
    server("memcached", &["memcached"],
        &["memcached", "-p", "{port}", "-l", "127.0.0.1", "-U", "0", "-t", "4", "-m", "256", "-u", "root"],
        "{self} client memcached {port}").on(4).does(144_000, "values set or read"),
    run("git log", &["git"], &["git", "-c", "safe.directory=*", "-C", "repository", "log", "--stat", "-n", "200"])
        .from(&["repository"]).does(200, "commits"),
    run("git log, 150", &["git"], &["git", "-c", "gc.auto=0", "-c", "safe.directory=*", "-C", "repository", "log", "--stat", "-n", "150"])
        .from(&["repository"]).of(HARDENED).does(150, "commits"),
    run("git repack", &["git"], &["git", "-c", "safe.directory=*", "-C", "repository", "repack", "-adfq", "--threads=2"])
        .from(&["repository"]).on(2).does(1, "repository"),
    run("xz -T2", &["xz"], &["xz", "-T2", "-3", "-k", "-c", "--block-size=1MiB", "text"]).from(&["text"]).on(2).does(6, "MiB"),
    run("zstd -T2", &["zstd"], &["zstd", "-T2", "-12", "-q", "-c", "text"]).from(&["text"]).on(2).does(6, "MiB"),
    crowd("numbers", &["{crowd}", "numbers", "1", "8000000"], 1, 8_000_000, "numbers"),
    crowd("trees, 8 threads", &["{crowd}", "trees", "8", "6"], 8, 48, "trees of 20,000 strings"),
    crowd("exchange, 8 threads", &["{crowd}", "exchange", "8", "6000000"], 8, 6_000_000, "blocks replaced"),
    crowd("exchange, 64 threads", &["{crowd}", "exchange", "64", "6000000"], 64, 6_000_000, "blocks replaced"),
    crowd("pairs, 2 threads", &["{crowd}", "pairs", "2", "16000000"], 2, 16_000_000, "blocks handed over"),
    crowd("pairs, 16 threads", &["{crowd}", "pairs", "16", "16000000"], 16, 16_000_000, "blocks handed over"),
    crowd("ring, 8 threads", &["{crowd}", "ring", "8", "16000000"], 8, 16_000_000, "blocks handed on"),
    crowd("ring, 64 threads", &["{crowd}", "ring", "64", "16000000"], 64, 16_000_000, "blocks handed on"),
    crowd("vectors, 8 threads", &["{crowd}", "vectors", "8", "4000"], 8, 4_000, "vectors grown"),
    crowd("fill, 256 MiB of 24 KiB", &["{crowd}", "fill", "24576", "256"], 1, 256, "MiB"),
    crowd("fill, 24 MiB of 24 KiB, ten times",
        &["sh", "-c", "for n in 1 2 3 4 5 6 7 8 9 10; do {crowd} fill 24576 24; done"], 1, 240, "MiB"),
    load("larson, 8 threads", &["{load}", "larson", "--threads", "8", "--operations", "20000000"], 8, 20_000_000),
    load("mixed lifetimes, 8 threads", &["{load}", "mixedlife", "--threads", "8", "--operations", "20000000"], 8, 20_000_000),
    load("realloc, 8 threads", &["{load}", "realloc", "--threads", "8", "--operations", "2000000"], 8, 2_000_000),
    load("buffers fresh", &["{load}", "buffer-fresh", "--threads", "1", "--operations", "300"], 1, 300),
    load("buffers fresh, 8 threads", &["{load}", "buffer-fresh", "--threads", "8", "--operations", "300"], 8, 300),
    load("buffers by halves", &["{load}", "buffer-halves", "--threads", "1", "--operations", "150"], 1, 150),
    load("buffers by halves, 8 threads", &["{load}", "buffer-halves", "--threads", "8", "--operations", "150"], 8, 150),
    load("buffers by 4 KiB", &["{load}", "buffer-pages", "--threads", "1", "--operations", "800000"], 1, 800_000),
    load("buffers by 4 KiB, 8 threads", &["{load}", "buffer-pages", "--threads", "8", "--operations", "800000"], 8, 800_000),
    load("buffers by 64 KiB", &["{load}", "buffer-steps", "--threads", "1", "--operations", "30000"], 1, 30_000),
    load("buffers by 64 KiB, 8 threads", &["{load}", "buffer-steps", "--threads", "8", "--operations", "30000"], 8, 30_000),
    load("strings", &["{load}", "buffer-strings", "--threads", "1", "--operations", "2000"], 1, 2_000),
    load("strings, 8 threads", &["{load}", "buffer-strings", "--threads", "8", "--operations", "2000"], 8, 2_000),
    pair("malloc and free of 64 bytes", &["{load}", "pair", "--bytes", "64", "--seconds", "0.4"]),
    pair("malloc and free of 1024 bytes", &["{load}", "pair", "--bytes", "1024", "--seconds", "0.4"]),
    load("storage pattern, 4 threads", &["{load}", "storage", "--threads", "4", "--operations", "150000"], 4, 150_000).of(WATCHING),
    run("db_bench, 4 threads fill and read", &["db_bench"], &["db_bench", "--benchmarks=fillrandom,readrandom", "--db=db",
        "--threads=4", "--num=15000", "--value_size=400", "--compression_type=none", "--cache_size=8388608",
        "--write_buffer_size=8388608", "--disable_wal=1", "--seed=1"])
        .clearing("db").of(WATCHING).on(4).does(120_000, "keys written or read"),
    server("redis, pipelines of 16", &["redis-server", "redis-benchmark"],
        &["redis-server", "--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--dir", "{folder}"],
        "redis-benchmark -p {port} -q -t set,get,lpush,lpop -n 40000 -r 20000 -d 300 -P 16 -c 16")
        .of(WATCHING).does(160_000, "requests"),
    idle("prefork of 16", &["bursts"], &["{bursts}", "prefork"], "").on(16).does(48, "bursts of 40 MiB"),
    idle("generations", &["bursts"], &["{bursts}", "generations"], "").on(4).does(120, "bursts of 20 MiB"),
    idle("postgres, 4 sorts (shared_buffers 16MB)", POSTGRES_NEEDS, POSTGRES, SORTS)
        .held(5, FOUR_LOADED, POSTGRES_READY, Ending::Interrupted).from(&["data"]).unprivileged().on(4).does(4, "sorts of 600,000 rows"),
    idle("postgres, 4 sorts, then light traffic", POSTGRES_NEEDS, POSTGRES, SORTS_AND_MORE)
        .held(0, FOUR_LOADED, POSTGRES_READY, Ending::Interrupted).from(&["data"]).unprivileged().on(4).does(4, "sorts of 600,000 rows"),
    idle("python, numpy", &["python3:numpy"], &["{python3:numpy}", "arrays.py"], "").from(&["arrays.py"])
        .with(&[("OPENBLAS_NUM_THREADS", "1"), ("PYTHONHASHSEED", "0")]).does(3, "bursts of 700 arrays and 150,000 rows"),
    idle("python objects, PYTHONMALLOC=malloc", &["python3"], &["{python3}", "objects.py"], "").from(&["objects.py"])
        .with(&[("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")]).does(3, "bursts of 250,000 objects"),
    idle("php-fpm, 4 children, USE_ZEND_ALLOC=0", &["php-fpm", "cgi-fcgi"],
        &["{php-fpm}", "-F", "-O", "-n", "-y", "{folder}/php.conf", "-d", "memory_limit=-1"], FASTCGI)
        .from(&["rows.php", "php.conf"]).with(&[("USE_ZEND_ALLOC", "0")]).unprivileged().on(4).does(12, "requests of 60 MiB"),
    idle("gunicorn, 4 workers, PYTHONMALLOC=malloc", &["python3:gunicorn", "curl"], &["{python3:gunicorn}", "-m", "gunicorn", "-w", "4", "-b",
        "127.0.0.1:{port}", "--worker-tmp-dir", "{folder}", "application:answer"], HTTP)
        .from(&["application.py"]).with(&[("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")]).on(4).does(12, "requests of 5,600 rows"),
    idle("redis in phases", &["redis-server"], IDLE_REDIS, "{self} client redis-phases {port}")
        .held(5, "loaded [0-9]+\n", "", Ending::Terminated).does(4, "phases of some 140 MiB"),
    idle("redis in batches", &["redis-server"], IDLE_REDIS, "{self} client redis-batches {port}")
        .held(0, "loaded [0-9]+\n", "", Ending::Terminated).does(150, "batches of 5,000 keys after 300 MiB"),
    rust("rust trees", &["{rust}", "trees"], 1, 120, "trees"),
    rust("rust words", &["{rust}", "words"], 1, 600_000, "words"),
    rust("rust document", &["{rust}", "document"], 1, 4_000, "documents"),
    rust("rust slots", &["{rust}", "slots"], 16, 960_000, "blocks replaced"),
    rust("rust channel", &["{rust}", "channel"], 8, 48_000, "messages"),
    rust("rust growing", &["{rust}", "growing"], 1, 4_000_000, "pieces appended"),
];

/// A pattern of vcm-load by a number of operations.
const fn load(name: &'static str, words: &'static [&'static str], threads: u32, operations: u64) -> Program {
    run(name, &["load"], words).on(threads).does(operations, "operations of the pattern")
}

/// A pattern of vcm-load that prints how long a call takes.
const fn pair(name: &'static str, words: &'static [&'static str]) -> Program {
    let program = run(name, &["load"], words).of(WATCHING).does(1, "malloc and free");
    Program { figure: Figure::Pair, ..program }
}

/// The programs whose set or name a word names, or is a part of; without words the set `whole`.
pub fn chosen(words: &[String]) -> Vec<&'static Program> {
    let whole = ["whole".to_owned()];
    let words = if words.is_empty() { &whole[..] } else { words };
    let is_set = |word: &str| SETS.iter().any(|(set, _)| *set == word);
    let is_named = |program: &Program, word: &String| match is_set(word) {
        true => program.sets.contains(&word.as_str()),
        false => program.name.contains(word.as_str()),
    };
    PROGRAMS.iter().filter(|program| words.iter().any(|word| is_named(program, word))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_no_set() {
        let names: BTreeSet<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        assert_eq!(names.len(), PROGRAMS.len());
        assert!(SETS.iter().all(|(set, _)| !names.contains(set)));
    }

    #[test]
    fn every_program_names_its_needs_sets_threads_and_operations() {
        for program in PROGRAMS {
            let Program { name, needs, sets, threads, operations: (many, what), .. } = program;
            assert!(!needs.is_empty() && *threads > 0 && *many > 0 && !what.is_empty(), "{name}");
            assert!(
                !sets.is_empty() && sets.iter().all(|set| SETS.iter().any(|(known, _)| known == set)),
                "{name}"
            );
        }
    }

    #[test]
    fn every_program_that_is_started_is_one_of_its_needs_or_the_shell() {
        for Program { name, needs, command, .. } in PROGRAMS {
            let first = command[0].trim_matches(['{', '}']);
            assert!(first == "sh" || needs.contains(&first), "{name}: {first}");
            let words = command.iter().flat_map(|word| word.split('{').skip(1));
            let named = words.filter_map(|rest| rest.split_once('}')).map(|(named, _)| named);
            for named in named.filter(|named| named.bytes().all(|byte| byte.is_ascii_lowercase())) {
                assert!(
                    ["port", "folder", "self"].contains(&named) || needs.contains(&named),
                    "{name}: {named}"
                );
            }
        }
    }

    #[test]
    fn a_set_chooses_its_rows_and_a_word_those_with_it_in_their_name() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            chosen(&words).iter().map(|program| program.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["hardened"]).len(), 10);
        assert_eq!(names(&["watching"]).len(), 5);
        assert_eq!(names(&["idle"]).len(), 10);
        assert_eq!(names(&["rust"]).len(), 6);
        assert_eq!(names(&[]), names(&["whole"]));
        assert_eq!(names(&["ruby", "gawk"]), ["ruby, objects", "ruby, strings", "gawk"]);
        assert!(names(&["no such program"]).is_empty());
    }
}
