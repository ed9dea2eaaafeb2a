//! SVG as it is written, and the places where text stands already.
//!
//! Promises that every text is escaped. Colours come twice: as an attribute for those who know no newer style, and as a
//! style that follows the ground. An element of the class `ink`, `soft`, `line` or `ground` has the page's colour.

use crate::colour::Colour;
use std::fmt::Write;

/// A letter's mean width and a line's height, in parts of the size of the text; wide fonts included.
const LETTER: f64 = 0.6;
const LINE: f64 = 1.25;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    pub fn meets(&self, other: &Area) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    pub fn holds(&self, other: &Area) -> bool {
        self.left <= other.left
            && other.right <= self.right
            && self.top <= other.top
            && other.bottom <= self.bottom
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

/// The area of a text whose baseline begins, ends or is centred here.
pub fn text_area(x: f64, y: f64, anchor: Anchor, size: f64, text: &str) -> Area {
    let width = text_width(text, size);
    let left = match anchor {
        Anchor::Start => x,
        Anchor::Middle => x - width / 2.0,
        Anchor::End => x - width,
    };
    Area { left, top: y - size, right: left + width, bottom: y - size + size * LINE }
}

/// No longer than fits: its middle goes, as names differ in their ends.
pub fn shortened(text: &str, width: f64, size: f64) -> String {
    let count = text.chars().count();
    let most = (width / (size * LETTER)).floor().max(2.0) as usize;
    if count <= most {
        return text.to_owned();
    }
    let (head, tail) = ((most - 1) / 2, (most - 1).div_ceil(2));
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{begin}…{end}")
}

#[derive(Default)]
pub struct Sheet {
    pub svg: String,
}

impl Sheet {
    /// A thin line of the page's colour; `class` is `line` or `soft`.
    pub fn rule(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        _ = write!(
            self.svg,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, size: f64, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let text = escaped(text);
        _ = write!(
            self.svg,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}"{anchor} font-size="{size}">{text}</text>"#
        );
    }

    pub fn rectangle(&mut self, area: &Area, colour: Colour, title: &str) {
        let Area { left, top, right, bottom } = area;
        let (width, height) = ((right - left).max(0.0), (bottom - top).max(0.0));
        _ = write!(
            self.svg,
            r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" {}>{}</rect>"#,
            filled(colour),
            title_of(title)
        );
    }

    /// A line through points.
    pub fn path(&mut self, points: &[(f64, f64)], colour: Colour, width: f64, dashes: &str) {
        let dashes =
            if dashes.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dashes}""#) };
        _ = write!(
            self.svg,
            r#"<path d="{}" fill="none" stroke-width="{width}" stroke-linejoin="round"{dashes} {}/>"#,
            steps(points),
            stroked(colour)
        );
    }

    /// Fills the area between points and a height.
    pub fn filled_below(&mut self, points: &[(f64, f64)], bottom: f64, colour: Colour) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
        _ = write!(
            self.svg,
            r#"<path d="{}V{bottom:.1}H{:.1}Z" fill-opacity="0.28" {}/>"#,
            steps(points),
            first.0.min(last.0),
            filled(colour)
        );
    }

    /// One of some shapes around a place. `size` is half its width.
    pub fn shape(&mut self, kind: usize, (x, y): (f64, f64), size: f64, colour: Colour, opacity: f64) {
        let fill = filled(colour);
        let faint = if opacity < 1.0 { format!(r#" fill-opacity="{opacity}""#) } else { String::new() };
        let polygon = |corners: &[(f64, f64)]| {
            let at = |(right, down): &(f64, f64)| format!("{:.1},{:.1}", x + right * size, y + down * size);
            let corners: Vec<String> = corners.iter().map(at).collect();
            format!(r#"<polygon points="{}" {fill}{faint}/>"#, corners.join(" "))
        };
        self.svg += &match kind % 5 {
            0 => format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{size}" {fill}{faint}/>"#),
            1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            2 => polygon(&[(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)]),
            3 => polygon(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
            _ => polygon(&[(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)]),
        };
    }

    /// The line of those that nobody beats.
    pub fn pareto(&mut self, corners: &[(f64, f64)]) {
        _ = write!(self.svg, r#"<path class="pareto" d="{}"/>"#, steps(corners));
    }

    /// The line where the page's script puts its cursor.
    pub fn cursor(&mut self, area: &Area) {
        let Area { left, top, right, bottom } = area;
        _ = write!(
            self.svg,
            r#"<line class="cursor" x1="{left:.1}" x2="{left:.1}" y1="{top:.1}" y2="{bottom:.1}" data-left="{left:.1}" data-right="{right:.1}"/>"#
        );
    }

    /// Nothing to be seen, but to be pointed at.
    pub fn hit(&mut self, area: &Area) {
        let Area { left, top, .. } = area;
        let (width, height) = (area.width().max(0.0), (area.bottom - top).max(0.0));
        _ = write!(
            self.svg,
            r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" fill="none" pointer-events="all"/>"#
        );
    }

    /// Draws a group that takes the focus and says what it is.
    pub fn told(&mut self, what: &str, draw: impl FnOnce(&mut Sheet)) {
        let what = escaped(what);
        _ = write!(
            self.svg,
            r#"<g class="told" tabindex="0" role="img" aria-label="{what}"><title>{what}</title>"#
        );
        draw(self);
        self.svg += "</g>";
    }
}

fn title_of(title: &str) -> String {
    if title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(title)) }
}

fn filled(colour: Colour) -> String {
    format!(r#"fill="{}" style="fill:{}""#, colour.on_light().hex(), colour.css())
}

fn stroked(colour: Colour) -> String {
    format!(r#"stroke="{}" style="stroke:{}""#, colour.on_light().hex(), colour.css())
}

fn steps(points: &[(f64, f64)]) -> String {
    let mut text = String::new();
    for (at, (x, y)) in points.iter().enumerate() {
        _ = write!(text, "{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" });
    }
    text
}

pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            // Not allowed in XML, whatever the escape.
            letter if letter.is_control() => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_too_long_is_cut_and_none_leaves_its_element() {
        assert_eq!(shortened("vcmalloc", 100.0, 10.0), "vcmalloc");
        assert_eq!(shortened("vcmalloc cache_limit=1M", 60.0, 10.0), "vcma…it=1M");
        let mut sheet = Sheet::default();
        sheet.text("ink", (0.0, 0.0), Anchor::Start, 12.0, "</text><script>\u{1b}");
        sheet.told("\"><b>", |_| ());
        assert!(
            !sheet.svg.contains("<script>") && !sheet.svg.contains("<b>") && !sheet.svg.contains('\u{1b}')
        );
    }
}
