//! Debian's Prometheus and its `promtool`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;

use super::agent::{Agent, Ended, Program, Reply, when};
use serde_json::Value;
use vcmalloc_tests::library::repository;
use vcmalloc_tests::{Ground, machine, run};

const INSTALL: &str = "prometheus and promtool are there: scripts/setup test";

#[test]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    let _program = Program::start("steady.c", Ground::Preload);
    let agent = Agent::start(&["--classes", "--processes", "steady*"]);
    let reply = agent.get("/metrics");
    assert!(reply.head.contains("content-type: text/plain; version=0.0.4"), "{}", reply.head);
    assert!(reply.text().contains("vcmalloc_class_bytes{"), "{}", reply.text());
    let mut promtool = machine::debians("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().expect(INSTALL);
    child.stdin.take().expect("a pipe").write_all(&reply.body).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    let open = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n";
    let reply = agent.ask(open);
    assert!(
        reply.head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{}",
        reply.head
    );
    assert!(reply.text().ends_with("# EOF\n"));
}

#[test]
fn a_real_prometheus_scrapes_it_and_answers_with_the_live_bytes_of_a_process() {
    let program = Program::start("steady.c", Ground::Preload);
    let agent = Agent::start(&["--processes", "steady*"]);
    let folder = tempfile::tempdir().expect("a folder");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let target = agent.address();
    let configuration = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: vcmalloc\n  static_configs:\n  - targets: ['{target}']\n"
    );
    let file = folder.path().join("prometheus.yml");
    fs::write(&file, configuration).expect("written");
    let mut command = machine::debians("prometheus");
    command.arg(format!("--config.file={}", file.display())).arg(format!("--web.listen-address={free}"));
    command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
    let _prometheus = Ended(command.stderr(Stdio::null()).spawn().expect(INSTALL));
    let pid = program.id();
    let query = format!("vcmalloc_live_bytes{{pid=\"{pid}\"}}");
    let found = when("it has scraped", || {
        let answer = answer(free, &query)?;
        answer["data"]["result"].as_array()?.first().cloned()
    });
    let told: Value = serde_json::from_str(&program.line).expect("JSON");
    assert_eq!(found["value"][1].as_str(), Some(told["live"].to_string().as_str()), "{found}");
    assert_eq!(found["metric"]["library"], "default");
    // Prometheus understands the dashboard's questions.
    let dashboard = fs::read_to_string(contributed("dashboard.json")).expect("it is there");
    let mut asked = Vec::new();
    queries(&serde_json::from_str(&dashboard).expect("JSON"), &mut asked);
    for query in asked.iter().filter(|query| !query.starts_with("label_values(")) {
        let plain = ["$instance", "$command", "$pid"]
            .iter()
            .fold(query.clone(), |text, name| text.replace(name, ".*"));
        let plain = plain.replace("$__rate_interval", "1m");
        let answer = answer(free, &plain).unwrap_or_else(|| panic!("no answer to {plain}"));
        assert_eq!(answer["status"], "success", "{plain}: {answer}");
    }
}

/// The answer of Prometheus to a query.
fn answer(address: SocketAddr, query: &str) -> Option<Value> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let request =
        format!("GET /api/v1/query?query={encoded} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(super::agent::PATIENCE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    serde_json::from_slice(&Reply::read(Box::new(stream)).body).ok()
}

/// The files that an operator copies.
fn contributed(name: &str) -> PathBuf {
    repository().join("contrib/serve").join(name)
}

/// The queries to Prometheus in the dashboard, its variables too.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str().filter(|_| name == "expr" || name == "definition") {
                    Some(text) => found.push(text.to_string()),
                    None => queries(value, found),
                }
            }
        }
        _ => {}
    }
}

/// The words of a text that name a metric.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("vcmalloc_")).collect()
}

#[test]
fn the_dashboard_the_rules_and_the_guide_name_metrics_that_exist_and_the_guide_names_all() {
    let agent = Agent::start(&["--classes", "--processes", "nothing"]);
    let metrics = agent.get("/metrics").text();
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let known: BTreeSet<&str> = types.collect();
    assert!(known.len() > 30, "{metrics}");
    let read = |path: PathBuf| {
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let dashboard: Value = serde_json::from_str(&read(contributed("dashboard.json"))).expect("JSON");
    let mut asked = Vec::new();
    queries(&dashboard, &mut asked);
    assert!(asked.len() > 15, "{asked:?}");
    let (rules, guide) = (read(contributed("rules.yml")), read(repository().join("docs/guides/serve.md")));
    for (what, text) in
        [("the dashboard", asked.join("\n")), ("the rules", rules), ("the guide", guide.clone())]
    {
        let named = metrics_in(&text);
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(!named.is_empty() && unknown.is_empty(), "{what}: there is no {unknown:?}");
    }
    let missing: Vec<_> = known.difference(&metrics_in(&guide)).copied().collect();
    assert!(missing.is_empty(), "docs/guides/serve.md does not name {missing:?}");
}

#[test]
fn promtool_takes_the_rules_and_each_alert_fires_when_it_should() {
    for arguments in [["check", "rules", "rules.yml"], ["test", "rules", "rules-test.yml"]] {
        let mut promtool = machine::debians("promtool");
        let promtool = promtool.args(arguments).current_dir(contributed(""));
        let finished = run(promtool, super::agent::PATIENCE).expect(INSTALL);
        finished.succeeded().unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    }
}
