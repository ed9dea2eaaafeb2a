//! A page for a browser: every stack as boxes whose width is its bytes. One file, which loads nothing.

use super::calls::Chain;
use maud::{PreEscaped, html};
use serde::Serialize;
use std::collections::HashMap;
use vcm_report::Frame;
use vcm_report::unit;

const STYLE: &str = include_str!("flame/style.css");
const SCRIPT: &str = include_str!("flame/script.js");

/// A function below its caller. Short names: there are tens of thousands.
#[derive(Serialize, Default)]
struct Box {
    /// Its name.
    n: String,
    /// Its place.
    #[serde(skip_serializing_if = "String::is_empty")]
    p: String,
    /// Bytes.
    v: u64,
    /// Objects.
    o: u64,
    /// The program's own.
    #[serde(skip_serializing_if = "is_false")]
    w: bool,
    /// The functions that it called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    c: Vec<Box>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// `title` says what the page shows, `about` what else there is to know. A chain that shrank is not drawn.
pub fn page(chains: &[Chain], title: &str, about: &str) -> String {
    let drawn: Vec<&Chain> = chains.iter().filter(|chain| chain.amount.bytes >= 0.5).collect();
    let mut root = boxes(&drawn, 0);
    root.n = "all".into();
    let data = serde_json::to_string(&root).unwrap_or_else(|_| "{}".into());
    // Nothing in a name may end the element.
    let data = data.replace('<', "\\u003c");
    let body = html! {
        header {
            h1 { (title) }
            p { (unit::bytes(root.v as f64)) "; " (about) }
            div.tools {
                input #search type="search" placeholder="Search (/)" aria-label="Search functions";
                button #all type="button" disabled { "Show all (Esc)" }
                button #theme type="button" { "Light or dark" }
                span #found role="status" {}
            }
        }
        main #graph aria-label="Stacks, outermost calls at the top" {}
        footer #detail role="status" {
            "Each box is a function, as wide as the bytes below it. Click one to see only what it called."
        }
        script type="application/json" #data { (PreEscaped(data)) }
    };
    Frame { title, style: STYLE, body, script: SCRIPT }.html()
}

/// The box of what these chains have in common, so deep from their outermost calls.
fn boxes(chains: &[&Chain], depth: usize) -> Box {
    let mut order = Vec::new();
    let mut below: HashMap<&str, Vec<&Chain>> = HashMap::new();
    let mut own = Box::default();
    let (mut bytes, mut objects) = (0.0, 0.0);
    for chain in chains {
        bytes += chain.amount.bytes;
        objects += chain.amount.objects;
        let Some(call) = outer(chain, depth) else { continue };
        let list = below.entry(call.function.as_str()).or_default();
        if list.is_empty() {
            order.push(call);
        }
        list.push(chain);
    }
    for call in order {
        let Some(chains) = below.get(call.function.as_str()) else { continue };
        let mut inner = boxes(chains, depth + 1);
        inner.n = call.function.clone();
        inner.p = call.place.clone();
        inner.w = call.is_own;
        own.c.push(inner);
    }
    own.c.sort_by_key(|inner| std::cmp::Reverse(inner.v));
    own.v = f64::round(bytes) as u64;
    own.o = f64::round(objects) as u64;
    own
}

/// The call at a depth, from the outside.
fn outer(chain: &Chain, depth: usize) -> Option<&super::Call> {
    chain.calls.len().checked_sub(depth + 1).and_then(|at| chain.calls.get(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Amount, Call};

    fn chain(calls: &[&str], bytes: f64) -> Chain {
        let call = |name: &&str| Call { function: name.to_string(), place: String::new(), is_own: true };
        let amount = Amount { objects: 1.0, bytes, variance: 0.0 };
        Chain { calls: calls.iter().map(call).collect(), amount }
    }

    #[test]
    fn callers_hold_what_they_call() {
        let chains = [chain(&["f", "main"], 30.0), chain(&["g", "main"], 50.0), chain(&["main"], 5.0)];
        let chains: Vec<&Chain> = chains.iter().collect();
        let root = boxes(&chains, 0);
        let main = root.c.first().unwrap();
        let inner: Vec<(&str, u64)> = main.c.iter().map(|inner| (inner.n.as_str(), inner.v)).collect();
        assert_eq!((root.v, main.n.as_str(), main.v), (85, "main", 85));
        assert_eq!(inner, [("g", 50), ("f", 30)]);
    }

    #[test]
    fn names_can_neither_end_the_data_nor_stand_for_parts_of_the_page() {
        let page = page(&[chain(&["</script><b>", "{{script}}"], 7.0), chain(&["less"], -9.0)], "a <b>", "");
        assert!(page.contains("\\u003c/script>") && !page.contains("</script><b>"));
        assert_eq!(page.matches("{{script}}").count(), 1);
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.contains("a &lt;b&gt;") && !page.contains("less\""));
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("src="));
    }
}
