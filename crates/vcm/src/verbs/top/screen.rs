//! The picture on the terminal: the list, one process, and the help.

use super::host::{Host, Row};
use super::keys::{Page, SORTS, State};
use super::table;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph};
use std::time::Instant;
use vcm_report::unit::amount;

pub fn draw(frame: &mut Frame, host: &Host, state: &mut State) {
    let parts = [Constraint::Min(0), Constraint::Length(1)];
    let [body, bottom] = Layout::vertical(parts).areas(frame.area());
    let rows = state.view.rows(host);
    if !rows.iter().any(|row| Some(row.id()) == state.chosen) && state.page == Page::List {
        state.chosen = rows.first().map(|row| row.id());
    }
    let keys = match state.page {
        _ if state.is_typing => format!("filter: {}_   Enter keeps it, Esc clears it", state.view.filter),
        Page::List => "q quit  Enter detail  / filter  p n r l c f o t b sort  h help".into(),
        Page::Detail => "q quit  Esc list  up/down other process  h help".into(),
        Page::Help => "q quit  Esc list".into(),
    };
    frame.render_widget(Paragraph::new(keys).style(strong()), bottom);
    match state.page {
        Page::List => list(frame, body, host, state, &rows),
        Page::Help => frame.render_widget(Paragraph::new(help()), body),
        Page::Detail => match host.rows().find(|row| Some(row.id()) == state.chosen) {
            Some(row) => detail(frame, body, row, state.has_colour),
            None => {
                frame.render_widget(Paragraph::new("the process has ended; Esc returns to the list"), body)
            }
        },
    }
}

/// Readable on dark and light: no colour of its own.
fn strong() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn list(frame: &mut Frame, area: Rect, host: &Host, state: &State, rows: &[&Row]) {
    let width = usize::from(area.width);
    let order = if state.view.is_reversed { ", reversed" } else { "" };
    let filter =
        if state.view.filter.is_empty() { String::new() } else { format!(", with '{}'", state.view.filter) };
    let count = rows.len();
    let title =
        format!("vcm top: {count} on vcmalloc, by {:?}{order}{filter}", state.view.sort).to_lowercase();
    let beyond = table::beyond(host);
    let room = usize::from(area.height).saturating_sub(2 + beyond.len());
    let at = rows.iter().position(|row| Some(row.id()) == state.chosen).unwrap_or(0);
    let first = (at + 1).saturating_sub(room);
    let mut lines = vec![
        Line::raw(title),
        Line::styled(table::heading(width), Style::new().add_modifier(Modifier::BOLD)),
    ];
    for (place, row) in rows.iter().enumerate().skip(first).take(room) {
        let near = row.limit().is_some_and(|limit| row.rss() > limit / 10 * 9);
        let mut style = if place == at { strong() } else { Style::new() };
        if near && state.has_colour {
            style = style.fg(Color::Red);
        }
        lines.push(Line::styled(format!("{:<width$}", table::line(row, width)), style));
    }
    lines.extend(beyond.into_iter().map(Line::raw));
    frame.render_widget(Paragraph::new(lines), area);
}

fn help() -> Vec<Line<'static>> {
    let mut lines = vec![
        Line::raw(
            "Letters select the sort column; the same letter again reverses the \
         order:",
        ),
        Line::raw(""),
    ];
    lines.extend(SORTS.iter().map(|(letter, _, what)| Line::raw(format!("  {letter}  {what}"))));
    for line in [
        "",
        "  up, down, PgUp, PgDn   select a process     Enter  show it",
        "  /   filter by number or name, Esc clears it   q, Ctrl-C  end",
        "",
        "LIMIT is the lowest of memory_limit, hard_limit and the control group's; WAIT",
        "the share of the last 10 s in which a task of the group waited for memory.",
    ] {
        lines.push(Line::raw(line));
    }
    lines
}

fn detail(frame: &mut Frame, area: Rect, row: &Row, has_colour: bool) {
    let mut lines = vec![
        Line::raw(format!("{} {}, {}, {}", row.id(), row.name, row.kind, row.snapshot.build)),
        Line::raw(moment(row)),
        Line::raw(""),
    ];
    lines.extend(bars(row, usize::from(area.width)));
    lines.extend(heaps(row));
    lines.push(Line::raw("over time: the line is RSS, the dots are live bytes"));
    let heights = [Constraint::Length(lines.len() as u16), Constraint::Min(0)];
    let [above, below] = Layout::vertical(heights).areas(area);
    frame.render_widget(Paragraph::new(lines), above);
    if below.height >= 4 && below.width >= 30 {
        chart(frame, below, row, has_colour);
    }
}

fn moment(row: &Row) -> String {
    let snapshot = &row.snapshot;
    let pages = match snapshot.pages_age.as_secs() {
        0 => "pages as of now".to_string(),
        seconds => format!("pages as of {seconds} s ago"),
    };
    match (&snapshot.torn, snapshot.pages_apart) {
        (Some(what), _) => format!("torn: {what} moved; {pages}"),
        (None, true) => format!("not of one moment; {pages}"),
        (None, false) => pages,
    }
}

fn bars(row: &Row, width: usize) -> Vec<Line<'static>> {
    let stats = &row.snapshot.stats;
    let whole = row.rss().max(1);
    let room = width.saturating_sub(33).min(100);
    let bar = |(label, bytes): (&str, u64)| {
        let share = bytes as f64 / whole as f64;
        let full = ((share * room as f64).round() as usize).min(room);
        Line::raw(format!("{label:<15}{:>9} {:>5.1}% {}", amount(bytes), share * 100.0, "█".repeat(full)))
    };
    let tiers = [
        ("live", stats.live_requested),
        ("waste", stats.waste()),
        ("vCPU caches", stats.vcpu_caches),
        ("transfer", stats.transfer),
        ("free in spans", stats.free_in_spans),
        ("dirty free", stats.dirty_free),
        ("metadata", stats.metadata),
        ("RSS", row.rss()),
    ];
    tiers.into_iter().map(bar).collect()
}

/// So many heaps of tenants have a line.
const HEAPS: usize = 4;

/// The largest heaps of tenants, by bytes of their spans.
fn heaps(row: &Row) -> Vec<Line<'static>> {
    let heaps = &row.snapshot.heaps;
    if heaps.count == 0 {
        return Vec::new();
    }
    let mut lines = vec![Line::raw(format!("heaps of tenants: {}, the largest by their spans", heaps.count))];
    lines.extend(heaps.largest.iter().take(HEAPS).map(|heap| {
        let limit = match heap.figures.limit {
            0 => String::new(),
            limit => format!(" of {}", amount(limit)),
        };
        Line::raw(format!("{:<15.15}{:>9}{limit}", heap.name.printed(), amount(heap.figures.bytes)))
    }));
    lines
}

fn chart(frame: &mut Frame, area: Rect, row: &Row, has_colour: bool) {
    let now = Instant::now();
    let points = |of: fn(&super::host::Moment) -> u64| -> Vec<(f64, f64)> {
        let ago = |at: Instant| -now.saturating_duration_since(at).as_secs_f64();
        row.history.iter().map(|moment| (ago(moment.at), of(moment) as f64)).collect()
    };
    let (rss, live) = (points(|moment| moment.rss), points(|moment| moment.live));
    let most = rss.iter().chain(&live).fold(1.0, |most: f64, (_, bytes)| most.max(*bytes)) * 1.05;
    let first = rss.first().map_or(-1.0, |(at, _)| at.min(-1.0));
    let colour = |colour| if has_colour { Style::new().fg(colour) } else { Style::new() };
    let line = |name: &'static str, points, marker, style| {
        Dataset::default().name(name).data(points).marker(marker).graph_type(GraphType::Line).style(style)
    };
    let sets = vec![
        line("RSS", &rss, Marker::Braille, colour(Color::Blue)),
        line("live", &live, Marker::Dot, colour(Color::Green)),
    ];
    let x = Axis::default().bounds([first, 0.0]).labels([format!("{:.0} s", first), "now".into()]);
    let y = Axis::default().bounds([0.0, most]).labels(["0".to_string(), amount(most as u64)]);
    frame.render_widget(Chart::new(sets).x_axis(x).y_axis(y), area);
}
