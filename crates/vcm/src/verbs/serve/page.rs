//! `/`: the processes, for a reader.

use super::host::Round;
use super::process::Look;
use vcm_foreign::Shown;
use vcm_report::unit::amount;

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>vcm serve</title>
<style>body{font:15px/1.5 system-ui,sans-serif;margin:2em}table{border-collapse:collapse}
th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid #8884}th:nth-child(-n+3),td:nth-child(-n+3){text-align:left}
</style><h1>Processes on vcmalloc</h1>
";

pub fn of(round: &Round) -> String {
    let mut text = HEAD.to_string();
    text += "<table><tr>";
    let heads = ["pid", "process", "library", "live", "cached", "heap", "RSS", "limit", "profile"];
    heads.iter().for_each(|head| text += &format!("<th>{head}"));
    text += "\n";
    let mut looks: Vec<&Look> = round.looks.iter().collect();
    looks.sort_by_key(|look| std::cmp::Reverse(look.stats.resident));
    looks.iter().for_each(|look| text += &row(look));
    text += "</table>\n";
    if looks.is_empty() {
        text += "<p>No processes found.\n";
    }
    for line in &round.lines {
        text += &format!("<p>{}\n", escaped(line));
    }
    let forbidden = round.unread.get(&super::host::Reason::Forbidden).copied().unwrap_or(0);
    if forbidden > 0 {
        text += &format!(
            "<p>No permission to read {forbidden} processes: run vcm serve as root or with CAP_SYS_PTRACE.\n"
        );
    }
    text + "<p><a href=\"metrics\">metrics</a>\n"
}

fn row(look: &Look) -> String {
    let (identity, stats) = (&look.identity, &look.stats);
    let pid = identity.pid;
    let name = match &identity.brick {
        Some(brick) => format!("{} {brick}", identity.name()),
        None => identity.name().to_string(),
    };
    let limits = [Some(stats.memory_limit), Some(stats.hard_limit), look.pressure.limit];
    let limit = limits.into_iter().flatten().filter(|bytes| *bytes > 0).min();
    let cells = [
        pid.to_string(),
        escaped(&name),
        identity.library.to_string(),
        amount(stats.live),
        amount(stats.vcpu_caches + stats.transfer),
        amount(stats.resident),
        look.whole.map_or(String::new(), |whole| amount(whole.rss)),
        limit.map_or(String::new(), amount),
        format!(
            "<a href=\"debug/pprof/heap?pid={pid}\">heap</a> <a href=\"debug/pprof/allocs?pid={pid}&amp;seconds=10\">allocs</a>"
        ),
    ];
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}")).collect();
    format!("<tr>{cells}\n")
}

fn escaped(text: &str) -> String {
    let text = text.shown().printed();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_text_whatever_is_in_it() {
        assert_eq!(escaped("<b a=\"x\">&\n"), "&lt;b a=&quot;x&quot;&gt;&amp;\\n");
    }
}
