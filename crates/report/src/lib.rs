//! Results as one web page that loads nothing, and as pictures.
//!
//! ```text
//! page      a page and its parts; the frame around any page
//! chart     points  lines  bars  histogram: drawn wide and narrow, and as a table
//! table     rows that a click sorts
//! sheet     SVG, and text that does not overlap
//! scale     a number's place on an axis            unit     numbers as they are shown
//! colour    on light and on dark ground
//! ```
//!
//! Knows nothing of allocators or processes; takes text of any user and escapes it. docs/design/report.md says why so.

pub mod chart;
pub mod colour;
mod page;
mod scale;
mod sheet;
mod table;
pub mod unit;

pub use chart::{Chart, standing_alone};
pub use colour::Colour;
pub use page::{Frame, Page, Part};
pub use table::{Cell, Column, Row, Table, Tone};
