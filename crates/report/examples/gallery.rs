//! Every form of chart with data that is hard to draw, on one page: to be looked at after a change, narrow and wide, on
//! both grounds. `cargo run -p vcm-report --example gallery > gallery.html`

use vcm_report::chart::{Axis, Bar, Better, Bin, Chart, Extent, Form, Group, Name, Point, Series};
use vcm_report::{Cell, Colour, Column, Page, Part, Row, Table, Tone};

const NAMES: [(&str, Colour); 6] = [
    ("glibc", Colour(140, 146, 156)),
    ("jemalloc", Colour(76, 134, 214)),
    ("tcmalloc", Colour(52, 160, 96)),
    ("mimalloc", Colour(228, 148, 44)),
    ("vcmalloc", Colour(222, 66, 56)),
    ("vcmalloc cache_limit=256M", Colour(150, 110, 200)),
];
const MIB: f64 = 1048576.0;

fn names() -> Vec<Name> {
    NAMES.iter().map(|(name, colour)| Name::new(*name, *colour)).collect()
}

/// A wave that begins with a step, another one for each place.
fn wave(place: usize, at: usize) -> f64 {
    let (place, at) = (place as f64, at as f64);
    (at / 60.0).min(1.0) * (400.0 + 40.0 * place + 60.0 * (at / 37.0 + place).sin()) * MIB
}

fn scatter(title: &str, spread: f64) -> Part {
    let point = |(place, name): (usize, Name)| {
        let (speed, memory) = (
            2e5 * (1.0 + spread * place as f64),
            (400.0 + 300.0 * spread * (place as f64 * 2.0).cos()) * MIB,
        );
        let round = |round: i32| {
            (speed * (1.0 + f64::from(round) * 0.004), memory * (1.0 - f64::from(round) * 0.003))
        };
        Point { name, across: speed, up: memory, rounds: (-2..=2).map(round).collect() }
    };
    Part::Chart(Chart {
        title: title.to_owned(),
        note: "Medians; the small points are the rounds.".to_owned(),
        form: Form::Points {
            points: names().into_iter().enumerate().map(point).collect(),
            across: Axis::new("randomread", "ops/s", Better::More),
            up: Axis::new("peak RSS", "B", Better::Less),
            extent: Extent::Data,
        },
    })
}

fn groups(values: &[(&str, f64)]) -> Vec<Group> {
    let bar = |value: f64| Bar {
        value: Some(value),
        range: Some((value * 0.95, value * 1.1)),
        report: Some(value * 1.05),
    };
    let group = |(name, value): &(&str, f64)| Group {
        name: (*name).to_owned(),
        bars: (0..NAMES.len()).map(|place| bar(value * (1.0 + place as f64 * 0.1))).collect(),
    };
    values.iter().map(group).collect()
}

fn main() {
    let series = |points: usize| {
        let line = move |(place, name): (usize, Name)| Series {
            name,
            points: (0..points).map(|at| (at as f64 * 0.1, wave(place, at))).collect(),
            is_area: place == 0,
        };
        names().into_iter().enumerate().map(line).collect::<Vec<_>>()
    };
    let lines = |title: &str, points: usize| {
        Part::Chart(Chart {
            title: title.to_owned(),
            note: String::new(),
            form: Form::Lines {
                series: series(points),
                across: Axis::new("since the start", "s", Better::Neither),
                up: Axis::new("RSS", "B", Better::Less),
            },
        })
    };
    let chart =
        |title: &str, form: Form| Part::Chart(Chart { title: title.to_owned(), note: String::new(), form });
    let bin = |power: u32| Bin {
        label: format!("≤{}{}", 1u64 << (power % 10), ["", "K", "M"][power as usize / 10]),
        value: (1e6 / f64::from(power + 1)).powf(1.3),
    };
    let cell = |value: f64, tone| Cell {
        below: "+6.0 %, better\n+2.1 % to +10.1 %\nseen from 5.0 %".to_owned(),
        tone,
        ..Cell::number(value, format!("{value:.1} MiB"))
    };
    let row = |(name, _): &(&str, Colour)| Row {
        is_marked: *name == "vcmalloc",
        ..Row::of(vec![
            Cell::text(*name),
            cell(412.5, Tone::Good),
            cell(96.0, Tone::Bad),
            cell(1.0, Tone::Plain),
        ])
    };
    let columns = vec![
        Column::text("allocator"),
        Column::number("peak RSS"),
        Column::number("voluntary switches"),
        Column::number("99.9th percentile of randomread, us"),
    ];
    let page = Page {
        title: "A gallery".to_owned(),
        about: "Every form, with data that is hard to draw.".to_owned(),
        outcome: "Recommended, judged by randomread and peak RSS: vcmalloc".to_owned(),
        parts: vec![
            scatter("Far apart", 0.2),
            scatter("All on one place", 0.0005),
            lines("A long line", 2000),
            lines("A short line", 8),
            chart(
                "Bars",
                Form::Bars {
                    names: names(),
                    groups: groups(&[("idle", 120.0 * MIB), ("under load", 3000.0 * MIB)]),
                    unit: "B".into(),
                },
            ),
            chart(
                "Ratios",
                Form::Ratios {
                    names: names(),
                    groups: groups(&[("peak RSS (less is better)", 0.9), ("CPU time", 0.7)]),
                },
            ),
            chart(
                "A histogram",
                Form::Histogram {
                    bins: (0..28).map(bin).collect(),
                    across: "bytes".into(),
                    up: Axis::new("allocations", "", Better::Neither),
                },
            ),
            chart(
                "Shares",
                Form::Shares {
                    parts: vec![
                        (Name::new("blocks of the same thread", Colour::of_place(0)), 5.7e6),
                        (Name::new("blocks of another thread", Colour::of_place(1)), 4.3e6),
                        (
                            Name::new(
                                "blocks from before the trace began, of which nothing is known",
                                Colour::of_place(2),
                            ),
                            1e3,
                        ),
                    ],
                    unit: "times".into(),
                },
            ),
            Part::Heading("Tables".to_owned()),
            Part::Table(Table { title: String::new(), columns, rows: NAMES.iter().map(row).collect() }),
            Part::Facts(vec![
                ("processor".to_owned(), "2 x AMD EPYC".to_owned()),
                (
                    "file".to_owned(),
                    "/usr/lib/x86_64-linux-gnu/a/path/that/has/no/place/to/break/libvcmalloc.so.0".to_owned(),
                ),
            ]),
            Part::Code {
                what: "The command:".to_owned(),
                text: "vcm compare --html report.html -- redis-server --port 7001".to_owned(),
            },
        ],
    };
    print!("{}", page.html());
}
