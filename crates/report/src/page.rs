//! A page and its parts, and the frame around any page: one file that loads nothing and says so to the browser.

use crate::chart::{Chart, Form};
use crate::table::{Table, ticked};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const PAGE_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("script.js");

/// The policy for a browser: not to load anything, send anything, be in somebody's frame of another's making.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; form-action 'none'; base-uri 'none'";

/// Text between two backticks is code, but in facts, lists and code, which are as they are.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub title: String,
    /// Below the title: what was asked, or done.
    pub about: String,
    /// The outcome, in a sentence or some lines; may be empty.
    pub outcome: String,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug)]
pub enum Part {
    Heading(String),
    Text(String),
    /// Smaller than text.
    Note(String),
    /// Why what was measured means nothing.
    Void {
        text: String,
        reasons: Vec<String>,
        more: String,
    },
    List(Vec<String>),
    /// Somebody else's words, with who said so before them and where behind.
    Said {
        who: String,
        text: String,
        link: String,
    },
    /// Names and what they are. The text is not ours.
    Facts(Vec<(String, String)>),
    /// Lines to be copied, with what they are for.
    Code {
        what: String,
        text: String,
    },
    Table(Table),
    Chart(Chart),
    /// Behind a line that is to be opened.
    Folded {
        head: String,
        parts: Vec<Part>,
    },
}

/// The frame of a page around its body.
pub struct Frame<'a> {
    pub title: &'a str,
    /// Behind the style of all pages, which has the colours of both grounds.
    pub style: &'a str,
    pub body: Markup,
    pub script: &'a str,
}

impl Frame<'_> {
    pub fn html(&self) -> String {
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) (PreEscaped(self.style)) }
                }
                body {
                    (self.body)
                    @if !self.script.is_empty() { script { (PreEscaped(self.script)) } }
                }
            }
        };
        markup.into_string() + "\n"
    }
}

impl Page {
    pub fn html(&self) -> String {
        let is_void = self.parts.iter().any(|part| matches!(part, Part::Void { .. }));
        let mut charts = 0;
        let body = html! {
            main {
                h1 { (self.title) }
                @if !self.about.is_empty() { p { (ticked(&self.about)) } }
                @if !self.outcome.is_empty() { p.outcome[!is_void] { (ticked(&self.outcome)) } }
                @for part in &self.parts { (one_part(part, &mut charts)) }
            }
        };
        Frame { title: &self.title, style: PAGE_STYLE, body, script: SCRIPT }.html()
    }
}

fn one_part(part: &Part, charts: &mut usize) -> Markup {
    html! {
        @match part {
            Part::Heading(text) => { h2 { (text) } }
            Part::Text(text) => { p { (ticked(text)) } }
            Part::Note(text) => { p.note { (ticked(text)) } }
            Part::Void { text, reasons, more } => {
                div.void {
                    p { strong { "Void." } " " (text) }
                    ul { @for reason in reasons { li { (reason) } } }
                    p { (more) }
                }
            }
            Part::List(lines) => { ul { @for line in lines { li { (ticked(line)) } } } }
            Part::Said { who, text, link } => {
                p { strong { (who) } " " (ticked(text)) @if !link.is_empty() { " " a href=(link) { (link) } } }
            }
            Part::Facts(facts) => {
                dl { @for (name, value) in facts { dt { (name) } dd { (value) } } }
            }
            Part::Code { what, text } => {
                @if !what.is_empty() { p.note { (what) } }
                pre { code { (text) } }
            }
            Part::Table(table) => { (table.markup()) }
            Part::Chart(chart) => { (figure(chart, charts)) }
            Part::Folded { head, parts } => {
                details { summary { (head) } @for part in parts { (one_part(part, charts)) } }
            }
        }
    }
}

fn figure(chart: &Chart, charts: &mut usize) -> Markup {
    *charts += 1;
    let is_lines = matches!(chart.form, Form::Lines { .. });
    html! {
        figure.lines[is_lines] {
            figcaption {
                @if !chart.title.is_empty() { strong { (ticked(&chart.title)) } }
                @if !chart.note.is_empty() { p { (ticked(&chart.note)) } }
            }
            (PreEscaped(chart.svg(*charts)))
            @if is_lines { p.readout role="status" {} }
            details { summary { "The same as a table" } (chart.table().markup()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Bin, Extent, Name, Point, Series};
    use crate::{Cell, Colour, Column, Row};

    const NASTY: &str = "</script></style><svg onload=alert(1)>\"'&";

    fn page() -> Page {
        let name = || Name::new(NASTY, Colour(222, 66, 56));
        let axis = || Axis::new(NASTY, NASTY, Default::default());
        let chart = |form| Part::Chart(Chart { title: NASTY.into(), note: NASTY.into(), form });
        let point = |across| Point { name: name(), across, up: 1.0, rounds: vec![(1.0, 2.0)] };
        let points = vec![point(1.0), point(2.0)];
        let lines = vec![Series { name: name(), points: vec![(0.0, 1.0), (1.0, 2.0)], is_area: false }];
        Page {
            title: NASTY.into(),
            about: NASTY.into(),
            outcome: NASTY.into(),
            parts: vec![
                Part::Heading(NASTY.into()),
                Part::Text(NASTY.into()),
                Part::List(vec![NASTY.into()]),
                Part::Said { who: NASTY.into(), text: NASTY.into(), link: NASTY.into() },
                Part::Facts(vec![(NASTY.into(), NASTY.into())]),
                Part::Code { what: NASTY.into(), text: NASTY.into() },
                Part::Table(Table {
                    title: NASTY.into(),
                    columns: vec![Column::text(NASTY)],
                    rows: vec![Row::of(vec![Cell {
                        aside: NASTY.into(),
                        below: NASTY.into(),
                        ..Cell::text(NASTY)
                    }])],
                }),
                chart(Form::Points { points, across: axis(), up: axis(), extent: Extent::Data }),
                chart(Form::Lines { series: lines, across: axis(), up: axis() }),
                chart(Form::Histogram {
                    bins: vec![Bin { label: NASTY.into(), value: 3.0 }],
                    across: NASTY.into(),
                    up: axis(),
                }),
                chart(Form::Shares { parts: vec![(name(), 1.0)], unit: NASTY.into() }),
                Part::Void { text: NASTY.into(), reasons: vec![NASTY.into()], more: NASTY.into() },
            ],
        }
    }

    #[test]
    fn no_text_leaves_its_element() {
        let html = page().html();
        assert!(!html.contains(NASTY) && !html.contains("<svg onload"));
        assert_eq!(html.matches("</script>").count(), 1);
        assert_eq!(html.matches("</style>").count(), 1);
    }

    #[test]
    fn a_page_names_nothing_outside_of_it_and_forbids_loading() {
        let mut page = page();
        page.parts.retain(|part| !matches!(part, Part::Said { .. }));
        let html = page.html();
        for outside in
            ["src=", "href=", "@import", "url(", "<link", "http:", "https:", "<script>import", "fetch("]
        {
            assert!(!html.contains(outside), "{outside} is in it");
        }
        assert!(html.contains("default-src &#39;none&#39;") || html.contains("default-src 'none'"));
    }

    #[test]
    fn every_chart_is_drawn_for_both_widths_and_told_as_a_table() {
        let html = page().html();
        for mark in ["class=\"wide\"", "class=\"narrow\"", "The same as a table"] {
            assert_eq!(html.matches(mark).count(), 4, "{mark}");
        }
        assert_eq!(html.matches("<svg ").count(), 8);
        assert_eq!(html.matches("<desc ").count(), 8);
    }
}
