use super::*;

fn pairs(output: &str) -> Vec<(String, f64)> {
    understood(output).into_iter().map(|reading| (reading.name, reading.value)).collect()
}

fn assert_reads(output: &str, expected: &[(&str, f64)]) {
    let expected: Vec<(String, f64)> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    assert_eq!(pairs(output), expected);
}

#[test]
fn redis_benchmark_is_read_in_both_of_its_forms() {
    let new = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
        \"p99_latency_ms\",\"max_latency_ms\"\n\"SET\",\"125000.00\",\"0.2\",\"0.1\",\"0.2\",\"0.3\",\"0.5\",\"1.2\"\n";
    assert_reads(new, &[("set", 125_000.0), ("set p99", 500.0)]);
    assert_reads("\"GET\",\"90909.09\"\n", &[("get", 90_909.09)]);
}

#[test]
fn db_bench_is_read_with_its_tail() {
    let output = "DB path: [/tmp/x]\n\
        fillrandom   :       4.712 micros/op 212207 ops/sec 0.094 seconds 20000 operations;   23.5 MB/s\n\
        Microseconds per write:\nCount: 20000 Average: 4.6953  StdDev: 51.50\n\
        Percentiles: P50: 4.00 P75: 5.00 P99: 33.60 P99.9: 4000.00 P99.99: 14000.00\n";
    assert_reads(
        output,
        &[("fillrandom", 212_207.0), ("fillrandom p99", 33.6), ("fillrandom p99.9", 4000.0)],
    );
}

#[test]
fn wrk_is_read_with_its_units() {
    let output = "Running 1s test\n  Latency Distribution\n     50%  610.00us\n     99%    1.25ms\n\
        Requests/sec:  48213.55\nTransfer/sec:  39.1MB\n";
    assert_reads(output, &[("requests", 48_213.55), ("p99", 1250.0)]);
}

#[test]
fn pgbench_and_rados_are_read() {
    let pgbench = "latency average = 1.5 ms\ntps = 1333.25 (without initial connection time)\n";
    assert_reads(pgbench, &[("transactions", 1333.25), ("mean latency", 1500.0)]);
    let rados = "Bandwidth (MB/sec):     40.1\nAverage IOPS:           10\nAverage Latency(s):     0.5\n\
        Max latency(s):         1.5\n";
    assert_reads(rados, &[("objects", 10.0), ("mean latency", 5e5), ("longest latency", 1.5e6)]);
}

#[test]
fn fio_is_read_as_json_behind_warnings_and_in_terse() {
    let json = "fio: warning\n{\"jobs\": [{\"read\": {\"iops\": 100.5, \"clat_ns\": {\"percentile\": \
        {\"99.000000\": 8000, \"99.900000\": 9000}}}, \"write\": {\"iops\": 0}}, \
        {\"read\": {\"iops\": 100.5, \"clat_ns\": {\"percentile\": {\"99.000000\": 7000}}}}]}\nend\n";
    assert_reads(json, &[("read", 201.0), ("read p99", 8.0), ("read p99.9", 9.0)]);
    let mut fields = vec!["0"; 130];
    fields[..3].copy_from_slice(&["3", "fio-3.33", "job"]);
    fields[5 + 41 + 2] = "750";
    fields[5 + 41 + 20] = "99.000000%=125";
    assert_reads(&fields.join(";"), &[("write", 750.0), ("write p99", 125.0)]);
}

#[test]
fn anything_else_says_nothing() {
    for output in
        ["", "hello\n", "{\"a\": 1}", "{", "\"quoted\"\n", "tps = many\n", "Requests/sec:", "3;fio-3.33;job"]
    {
        assert_eq!(pairs(output), [], "{output}");
    }
}

#[test]
fn a_pattern_takes_the_last_number_that_fits_and_needs_one_group() {
    let pattern = Pattern::new("rate: ([0-9.,]+)", Better::More).unwrap();
    assert_eq!(pattern.read("rate: 1\nrate: 1,234.5 a second\n").unwrap().value, 1234.5);
    assert_eq!((pattern.name().as_str(), pattern.read("none")), ("rate", None));
    assert_eq!(Pattern::new("(?<hits>[0-9]+)", Better::Less).unwrap().name(), "hits");
    assert!(Pattern::new("rate", Better::More).unwrap_err().contains("one group"));
    assert!(Pattern::new("(", Better::More).unwrap_err().contains("no regular expression"));
}
