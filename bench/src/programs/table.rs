//! The programs that are measured, declared once each.

pub use super::program::{Figure, Program, SETS, Server};

use super::program::{BY_TERM, Words, idle, load, run, server};
use super::servers::SERVERS;
use super::untuned::UNTUNED;
use vcm_measure::trial::{End, Signal};

const BOTH: Words = "whole hardened";
const PYTHON_TREES: Program = run("python", "python3", "{python3} tree.py")
    .from("tree.py")
    .of(BOTH)
    .does(12, "trees of 16,383 nodes, then 200,000 strings");
const REDIS: Words = "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no";
const IDLE_REDIS: Words =
    "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no --activedefrag no";
const CLIENT: Words = "redis-server python3";
const LOADED: &str = "loaded [0-9]+\n";
const POSTGRES: Words = "{postgres} -D data -k {folder} -c listen_addresses= -c shared_buffers=16MB -c work_mem=256MB \
     -c jit=off -c autovacuum=off -c fsync=off -c max_connections=10";
const POSTGRES_NEEDS: Words = "postgres initdb psql";
const POSTGRES_READY: &str = "ready to accept connections";
const FOUR_LOADED: &str = "(?s)(loaded.*){4}";
/// Twelve requests, four at a time, so that each of four children gets some; each answers with its number.
const HTTP: &str = "for n in 1 2 3; do for m in 1 2 3 4; do curl -s http://127.0.0.1:{port}/ & done; wait; done \
     | sort -u | wc -l | grep -qx 4";
const FASTCGI: &str = "for n in 1 2 3; do for m in 1 2 3 4; do SCRIPT_FILENAME={folder}/rows.php SCRIPT_NAME=/ \
     REQUEST_METHOD=GET cgi-fcgi -bind -connect 127.0.0.1:{port} & done; wait; done | grep -E '^[0-9]+' | sort -u | wc -l \
     | grep -qx 4";

/// All but those of `untuned` and `servers`, in the order of the tables. Words and inputs are those of the scripts before 2026-11-28 to the byte, but for the
/// text of xz and zstd and git's repository, which were this repository's own and changed with it.
#[rustfmt::skip]
static PROGRAMS: &[Program] = &[
    run("perl, a hash", "perl", "perl -e {script:hash.pl}").of(BOTH).does(150_000, "keys set, sorted and read"),
    run("lua", "lua5.4", "lua5.4 -e {script:tables.lua}").of(BOTH).does(400_000, "tables, then 200,000 strings"),
    PYTHON_TREES,
    Program { name: "python, PYTHONMALLOC=malloc", ..PYTHON_TREES }.with("PYTHONMALLOC=malloc"),
    run("ruby, objects", "ruby", "ruby -e {script:objects.rb}").does(6, "trees of 32,767 nodes, then 120,000 strings"),
    run("ruby, strings", "ruby", "ruby -e {script:strings.rb}").does(60, "strings that grow and are split, then 400 arrays"),
    run("gawk", "gawk", "gawk {script:keys.awk}").does(400_000, "appends to an array"),
    run("bc", "bc", "bc").reads("factorial.bc").does(403_000, "multiplications"),
    run("jq", "jq python3", "jq {script:tags.jq} rows.json").from("rows.json").of(BOTH).does(60_000, "objects"),
    run("g++", "g++", "g++ -O1 -fsyntax-only rows.cc").from("rows.cc").does(1, "file"),
    run("g++, code", "g++", "g++ -O1 -c -o /dev/null rows.cc").from("rows.cc").of("hardened").does(1, "file"),
    run("z3", "z3", "z3 -in").reads("search.smt2").does(1, "formula"),
    run("sqlite3", "sqlite3", "sqlite3 :memory:").reads("rows.sql").of(BOTH).does(200_000, "rows inserted, indexed, changed, halved"),
    run("db_bench, fill", "db_bench", "db_bench --benchmarks=fillrandom,compact,readrandom --db=db --value_size=200 \
        --write_buffer_size=4194304 --compression_type=none --cache_size=8388608 --num=80000")
        .clearing("db").on(2).does(160_000, "keys written or read"),
    run("db_bench, read while writing", "db_bench", "db_bench --benchmarks=fillseq,readwhilewriting --db=db --value_size=200 \
        --write_buffer_size=4194304 --compression_type=none --cache_size=8388608 --num=15000 --threads=4 --disable_wal=1")
        .clearing("db").on(5).does(120_000, "keys written or read"),
    run("db_bench, overwrite", "db_bench", "db_bench --db=db --benchmarks=fillrandom,readrandom,overwrite --num=100000 \
        --value_size=200 --write_buffer_size=4194304 --compression_type=none")
        .clearing("db").of("hardened").on(2).does(300_000, "keys written or read"),
    server("redis", "redis-server redis-benchmark", REDIS,
        "redis-benchmark -p {port} -q -n 40000 -r 100000 -P 16 -d 200 -t set,get,lpush,hset,zadd").of(BOTH).does(200_000, "requests"),
    server("memcached", "memcached python3", "memcached -p {port} -l 127.0.0.1 -U 0 -t 4 -m 256 -u root",
        "{python3} clients.py memcached {port}").from("clients.py").on(4).does(144_000, "values set or read"),
    run("git log", "git python3", "git -c safe.directory=* -C repository log --stat -n 200").from("repository").does(200, "commits"),
    run("git log, 150", "git python3", "git -c gc.auto=0 -c safe.directory=* -C repository log --stat -n 150")
        .from("repository").of("hardened").does(150, "commits"),
    run("git repack", "git python3", "git -c safe.directory=* -C repository repack -adfq --threads=2")
        .from("repository").on(2).does(1, "repository"),
    run("xz -T2", "xz python3", "xz -T2 -3 -k -c --block-size=1MiB text").from("text").on(2).does(6, "MiB"),
    run("zstd -T2", "zstd python3", "zstd -T2 -12 -q -c text").from("text").on(2).does(6, "MiB"),
    run("numbers", "crowd", "{crowd} numbers 1 8000000").does(8_000_000, "numbers"),
    run("trees, 8 threads", "crowd", "{crowd} trees 8 6").on(8).does(48, "trees of 20,000 strings"),
    run("exchange, 8 threads", "crowd", "{crowd} exchange 8 6000000").on(8).does(6_000_000, "blocks replaced"),
    run("exchange, 64 threads", "crowd", "{crowd} exchange 64 6000000").on(64).does(6_000_000, "blocks replaced"),
    run("pairs, 2 threads", "crowd", "{crowd} pairs 2 16000000").on(2).does(16_000_000, "blocks handed over"),
    run("pairs, 16 threads", "crowd", "{crowd} pairs 16 16000000").on(16).does(16_000_000, "blocks handed over"),
    run("ring, 8 threads", "crowd", "{crowd} ring 8 16000000").on(8).does(16_000_000, "blocks handed on"),
    run("ring, 64 threads", "crowd", "{crowd} ring 64 16000000").on(64).does(16_000_000, "blocks handed on"),
    run("vectors, 8 threads", "crowd", "{crowd} vectors 8 4000").on(8).does(4_000, "vectors grown"),
    run("fill, 256 MiB of 24 KiB", "crowd", "{crowd} fill 24576 256").does(256, "MiB"),
    run("fill, 24 MiB of 24 KiB, ten times", "crowd", "sh -c {script:fill.sh} {crowd}").does(240, "MiB"),
    load("larson, 8 threads", "{load} larson --threads 8 --operations 20000000", 8, 20_000_000),
    load("mixed lifetimes, 8 threads", "{load} mixedlife --threads 8 --operations 20000000", 8, 20_000_000),
    load("realloc, 8 threads", "{load} realloc --threads 8 --operations 2000000", 8, 2_000_000),
    load("buffers fresh", "{load} buffer-fresh --threads 1 --operations 300", 1, 300),
    load("buffers fresh, 8 threads", "{load} buffer-fresh --threads 8 --operations 300", 8, 300),
    load("buffers by halves", "{load} buffer-halves --threads 1 --operations 150", 1, 150),
    load("buffers by halves, 8 threads", "{load} buffer-halves --threads 8 --operations 150", 8, 150),
    load("buffers by 4 KiB", "{load} buffer-pages --threads 1 --operations 800000", 1, 800_000),
    load("buffers by 4 KiB, 8 threads", "{load} buffer-pages --threads 8 --operations 800000", 8, 800_000),
    load("buffers by 64 KiB", "{load} buffer-steps --threads 1 --operations 30000", 1, 30_000),
    load("buffers by 64 KiB, 8 threads", "{load} buffer-steps --threads 8 --operations 30000", 8, 30_000),
    load("strings", "{load} buffer-strings --threads 1 --operations 2000", 1, 2_000),
    load("strings, 8 threads", "{load} buffer-strings --threads 8 --operations 2000", 8, 2_000),
    run("malloc and free of 64 bytes", "load", "{load} pair --bytes 64 --seconds 0.4")
        .of("watching").shows(Figure::Pair).does(1, "malloc and free"),
    run("malloc and free of 1024 bytes", "load", "{load} pair --bytes 1024 --seconds 0.4")
        .of("watching").shows(Figure::Pair).does(1, "malloc and free"),
    load("storage pattern, 4 threads", "{load} storage --threads 4 --operations 150000", 4, 150_000).of("watching"),
    run("db_bench, 4 threads fill and read", "db_bench", "db_bench --benchmarks=fillrandom,readrandom --db=db --threads=4 --num=15000 \
        --value_size=400 --compression_type=none --cache_size=8388608 --write_buffer_size=8388608 --disable_wal=1 --seed=1")
        .clearing("db").of("watching").on(4).does(120_000, "keys written or read"),
    server("redis, pipelines of 16", "redis-server redis-benchmark", "redis-server --port {port} --bind 127.0.0.1 --save '' --dir {folder}",
        "redis-benchmark -p {port} -q -t set,get,lpush,lpop -n 40000 -r 20000 -d 300 -P 16 -c 16").of("watching").does(160_000, "requests"),
    idle("prefork of 16", "bursts", "{bursts} prefork", "").on(16).does(48, "bursts of 40 MiB"),
    idle("generations", "bursts", "{bursts} generations", "").on(4).does(120, "bursts of 20 MiB"),
    idle("postgres, 4 sorts (shared_buffers 16MB)", POSTGRES_NEEDS, POSTGRES, "sh sorts.sh {psql} {folder} 0")
        .held(5, FOUR_LOADED, POSTGRES_READY, End::By(Signal::SIGINT)).from("data sorts.sh").unprivileged()
        .on(4).does(4, "sorts of 600,000 rows"),
    idle("postgres, 4 sorts, then light traffic", POSTGRES_NEEDS, POSTGRES, "sh sorts.sh {psql} {folder} 50")
        .held(0, FOUR_LOADED, POSTGRES_READY, End::By(Signal::SIGINT)).from("data sorts.sh").unprivileged()
        .on(4).does(4, "sorts of 600,000 rows"),
    idle("python, numpy", "python3:numpy", "{python3:numpy} arrays.py", "").from("arrays.py")
        .with("OPENBLAS_NUM_THREADS=1 PYTHONHASHSEED=0").does(3, "bursts of 700 arrays and 150,000 rows"),
    idle("python objects, PYTHONMALLOC=malloc", "python3", "{python3} objects.py", "").from("objects.py")
        .with("PYTHONMALLOC=malloc PYTHONHASHSEED=0").does(3, "bursts of 250,000 objects"),
    idle("php-fpm, 4 children, USE_ZEND_ALLOC=0", "php-fpm cgi-fcgi", "{php-fpm} -F -O -n -y php.conf -d memory_limit=-1", FASTCGI)
        .from("rows.php php.conf").with("USE_ZEND_ALLOC=0").unprivileged().on(4).does(12, "requests of 60 MiB"),
    idle("gunicorn, 4 workers, PYTHONMALLOC=malloc", "python3:gunicorn curl",
        "{python3:gunicorn} -m gunicorn -w 4 -b 127.0.0.1:{port} --worker-tmp-dir {folder} application:answer", HTTP)
        .from("application.py").with("PYTHONMALLOC=malloc PYTHONHASHSEED=0").on(4).does(12, "requests of 5,600 rows"),
    idle("redis in phases", CLIENT, IDLE_REDIS, "{python3} clients.py phases {port}")
        .held(5, LOADED, "", BY_TERM).from("clients.py").does(4, "phases of some 140 MiB"),
    idle("redis in batches", CLIENT, IDLE_REDIS, "{python3} clients.py batches {port}")
        .held(0, LOADED, "", BY_TERM).from("clients.py").does(150, "batches of 5,000 keys after 300 MiB"),
    run("rust trees", "rust", "{rust} trees").of("rust").shows(Figure::Crate).does(120, "trees"),
    run("rust words", "rust", "{rust} words").of("rust").shows(Figure::Crate).does(600_000, "words"),
    run("rust document", "rust", "{rust} document").of("rust").shows(Figure::Crate).does(4_000, "documents"),
    run("rust slots", "rust", "{rust} slots").of("rust").shows(Figure::Crate).on(16).does(960_000, "blocks replaced"),
    run("rust channel", "rust", "{rust} channel").of("rust").shows(Figure::Crate).on(8).does(48_000, "messages"),
    run("rust growing", "rust", "{rust} growing").of("rust").shows(Figure::Crate).does(4_000_000, "pieces appended"),
];

/// The programs of the sets among the words, else of `whole`, whose name contains one of the other words, if there are any.
pub fn chosen(words: &[String]) -> Vec<&'static Program> {
    let (mut sets, parts): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| SETS.contains(word));
    if sets.is_empty() {
        sets.push("whole");
    }
    let is_of = |program: &&Program| program.sets.split(' ').any(|set| sets.contains(&set));
    let is_named =
        |program: &&Program| parts.is_empty() || parts.iter().any(|part| program.name.contains(part));
    all().filter(is_of).filter(is_named).collect()
}

/// Those of this file and of the sets `untuned` and `servers`.
pub fn all() -> impl Iterator<Item = &'static Program> {
    PROGRAMS.iter().chain(UNTUNED).chain(SERVERS)
}

/// The rows that have a mean together: programs of Debian, the sets `untuned` and `servers`, programs in Rust, and loads that were written for
/// allocators. None of a row that the table lacks.
pub fn group_of(name: &str) -> Option<&'static str> {
    let program = all().find(|program| program.name == name)?;
    let is_load = program.needs.split(' ').any(|need| ["crowd", "load", "bursts"].contains(&need));
    Some(match program.sets {
        "untuned" => "untuned programs",
        "servers" => "servers of short requests",
        "rust" => "programs in Rust",
        _ if is_load => "loads",
        _ => "programs",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = all().map(|program| program.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn every_program_names_its_needs_sets_threads_and_operations() {
        for Program { name, needs, sets, threads, operations: (many, what), .. } in all() {
            assert!(!needs.is_empty() && *threads > 0 && *many > 0 && !what.is_empty(), "{name}");
            assert!(sets.split(' ').all(|set| SETS.contains(&set)), "{name}");
        }
    }

    #[test]
    fn every_program_that_is_started_is_one_of_its_needs_or_the_shell() {
        for Program { name, needs, command, .. } in all() {
            let needs: Vec<&str> = needs.split(' ').collect();
            let first = command.split(' ').next().unwrap().trim_matches(['{', '}']);
            assert!(first == "sh" || needs.contains(&first), "{name}: {first}");
            let places = command.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
            for place in places {
                let is_known = place.starts_with("script:") || ["port", "folder"].contains(&place);
                assert!(is_known || needs.contains(&place), "{name}: {place}");
            }
        }
    }

    #[test]
    fn a_set_chooses_its_rows_and_a_word_those_of_the_set_with_it_in_their_name() {
        let names = |words: &str| {
            let words: Vec<String> =
                words.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
            chosen(&words).iter().map(|program| program.name).collect::<Vec<_>>()
        };
        let counts = ["hardened", "watching", "idle", "rust", "untuned"].map(|set| names(set).len());
        assert_eq!(counts, [10, 5, 10, 6, UNTUNED.len()]);
        assert_eq!(names(""), names("whole"));
        assert_eq!(names("ruby,gawk"), ["ruby, objects", "ruby, strings", "gawk"]);
        assert_eq!(names("idle,redis in b"), ["redis in batches"]);
        assert!(names("no such program").is_empty());
    }
    #[test]
    fn the_default_has_no_row_of_the_untuned_set_and_its_rows_have_a_mean_of_their_own() {
        assert!(chosen(&[]).iter().all(|program| program.sets != "untuned"));
        assert!(
            UNTUNED.len() >= 40
                && UNTUNED.iter().all(|program| group_of(program.name) == Some("untuned programs"))
        );
        assert_eq!(group_of("perl, a hash"), Some("programs"));
        assert_eq!(group_of("larson, 8 threads"), Some("loads"));
        assert_eq!(group_of("no such program"), None);
    }
}
