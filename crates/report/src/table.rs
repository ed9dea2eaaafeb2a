//! Tables: a click on a heading sorts, and what is wider than the page is scrolled below its first column.

use maud::{Markup, html};

#[derive(Clone, Debug, Default)]
pub struct Table {
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, Default)]
pub struct Column {
    pub name: String,
    /// Its cells are numbers, and stand at the right.
    pub is_number: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Row {
    pub cells: Vec<Cell>,
    /// The one that a reader looks for.
    pub is_marked: bool,
    /// Its place along the chart that it is of, from 0 to 1.
    pub across: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    pub text: String,
    /// The value that it is sorted by; its text where there is none.
    pub value: Option<f64>,
    /// Behind the text, smaller.
    pub aside: String,
    /// Below the text, smaller; may have several lines, which are not broken.
    pub below: String,
    pub tone: Tone,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
}

impl Column {
    pub fn text(name: impl Into<String>) -> Column {
        Column { name: name.into(), is_number: false }
    }

    pub fn number(name: impl Into<String>) -> Column {
        Column { name: name.into(), is_number: true }
    }
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    pub fn number(value: f64, text: impl Into<String>) -> Cell {
        Cell { value: Some(value), ..Cell::text(text) }
    }

    pub fn none() -> Cell {
        Cell::text("-")
    }
}

impl Row {
    pub fn of(cells: Vec<Cell>) -> Row {
        Row { cells, ..Row::default() }
    }
}

impl Table {
    pub(crate) fn markup(&self) -> Markup {
        let sorts = self.rows.len() > 2 && self.rows.iter().all(|row| row.across.is_none());
        html! {
            @if !self.title.is_empty() { h3 { (ticked(&self.title)) } }
            div.scroll tabindex="0" role="region" aria-label=[Some(&self.title).filter(|title| !title.is_empty())] {
                table.sorts[sorts] {
                    thead { tr { @for column in &self.columns {
                        th.number[column.is_number] scope="col" { (ticked(&column.name)) }
                    } } }
                    tbody { @for row in &self.rows { (one_row(self, row)) } }
                }
            }
        }
    }
}

fn one_row(table: &Table, row: &Row) -> Markup {
    let across = row.across.map(|across| format!("{across:.4}"));
    html! {
        tr.marked[row.is_marked] data-across=[across] {
            @for (at, cell) in row.cells.iter().enumerate() {
                @let is_number = table.columns.get(at).is_some_and(|column| column.is_number);
                @let value = cell.value.map(|value| value.to_string());
                @if at == 0 { th.number[is_number] scope="row" data-value=[value] { (one_cell(cell)) } }
                @else { td.number[is_number] data-value=[value] { (one_cell(cell)) } }
            }
        }
    }
}

fn one_cell(cell: &Cell) -> Markup {
    let tone = match cell.tone {
        Tone::Plain => None,
        Tone::Good => Some("good"),
        Tone::Bad => Some("bad"),
    };
    html! {
        span class=[tone.filter(|_| cell.below.is_empty())] { (ticked(&cell.text)) }
        @if !cell.aside.is_empty() { " " small { (cell.aside) } }
        @if !cell.below.is_empty() { small.below { span class=[tone] { (cell.below) } } }
    }
}

/// Text between two backticks is code, as in Markdown.
pub(crate) fn ticked(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
