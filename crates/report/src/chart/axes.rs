//! The plot between two axes, and the legend above it.

use super::axis::{Axis, Better, TEXT};
use crate::colour::Colour;
use crate::scale::Scale;
use crate::sheet::{Anchor, Area, Sheet, text_width};
use crate::unit;

/// The mark that a legend shows before a name.
#[derive(Clone, Copy)]
pub enum Key {
    Dashes(usize),
    Area,
}

/// How lines differ besides their colours.
pub const DASHES: [&str; 6] = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2 1 2"];

/// As many lines as it takes; the height that it took.
pub fn legend(sheet: &mut Sheet, width: f64, names: &[(&str, Colour, Key)]) -> f64 {
    const KEY: f64 = 26.0;
    const LINE: f64 = 21.0;
    let (mut left, mut top) = (4.0, 4.0);
    for (name, colour, key) in names {
        let wide = KEY + 6.0 + text_width(name, TEXT) + 12.0;
        if left > 4.0 && left + wide > width {
            (left, top) = (4.0, top + LINE);
        }
        let middle = top + 8.0;
        match key {
            Key::Dashes(at) => {
                let dashes = DASHES.get(at % DASHES.len()).copied().unwrap_or("");
                sheet.path(&[(left, middle), (left + KEY, middle)], *colour, 2.5, dashes);
            }
            Key::Area => {
                let corners = [(left, middle - 6.0), (left + KEY, middle - 6.0)];
                sheet.filled_below(&corners, middle + 6.0, *colour);
            }
        }
        sheet.text("ink", (left + KEY + 6.0, middle + 4.5), Anchor::Start, TEXT, name);
        left += wide;
    }
    if names.is_empty() { 0.0 } else { top + LINE + 2.0 }
}

/// The area and the scales of the values. Numbers are those of the data; the marks have the axis's unit.
pub struct Plot {
    pub area: Area,
    across: Scale,
    up: Scale,
}

impl Plot {
    pub fn x(&self, value: f64) -> f64 {
        self.area.left + self.across.place(value) * self.area.width()
    }

    pub fn y(&self, value: f64) -> f64 {
        self.area.bottom - self.up.place(value) * (self.area.bottom - self.area.top)
    }

    /// Draws both axes from `top` on, `height` high with all that belongs to them.
    pub fn with_axes(
        sheet: &mut Sheet,
        room: (f64, f64, f64),
        (across, across_scale): (&Axis, Scale),
        up: (&Axis, Scale),
    ) -> Plot {
        let (_, across_unit) = marks(across, across_scale, 2);
        let plot = Plot::without_marks_across(sheet, room, (&named(across, &across_unit), across_scale), up);
        let (area, width) = (plot.area, room.0);
        let about = (area.width() / 75.0).floor().clamp(2.0, 8.0) as usize;
        let (marks, _) = marks(across, across_scale, about);
        let mut free_from = f64::MIN;
        for (value, mark) in &marks {
            let (x, half) = (plot.x(*value), text_width(mark, TEXT) / 2.0);
            sheet.rule("axis", (x, area.bottom), (x, area.bottom + 4.0));
            if x - half < free_from {
                continue;
            }
            // The last one must not be cut off.
            let x = x.min(width - half);
            sheet.text("soft", (x, area.bottom + 18.0), Anchor::Middle, TEXT, mark);
            free_from = x + half + 8.0;
        }
        plot
    }

    /// The same, whose marks across are drawn by who calls.
    pub fn without_marks_across(
        sheet: &mut Sheet,
        (width, top, height): (f64, f64, f64),
        (across, across_scale): (&str, Scale),
        (up, up_scale): (&Axis, Scale),
    ) -> Plot {
        let (up_marks, up_unit) = marks(up, up_scale, 5);
        let widest = up_marks.iter().map(|(_, mark)| text_width(mark, TEXT)).fold(0.0, f64::max);
        let (left, right) = ((widest + 12.0).max(24.0), width - 16.0);
        let area = Area { left, top: top + 30.0, right, bottom: top + height - 44.0 };
        let plot = Plot { area, across: across_scale, up: up_scale };
        sheet.text("soft", (2.0, top + 13.0), Anchor::Start, TEXT, &named(up, &up_unit));
        for (value, mark) in &up_marks {
            let y = plot.y(*value);
            sheet.rule("line", (area.left, y), (area.right, y));
            sheet.text("soft", (area.left - 7.0, y + 4.5), Anchor::End, TEXT, mark);
        }
        sheet.rule("axis", (area.left, area.bottom), (area.right, area.bottom));
        let middle = (area.left + area.right) / 2.0;
        sheet.text("soft", (middle, area.bottom + 37.0), Anchor::Middle, TEXT, across);
        plot
    }
}

fn named(axis: &Axis, unit: &str) -> String {
    let better = match axis.better {
        Better::More => " (more is better)",
        Better::Less => " (less is better)",
        Better::Neither => "",
    };
    axis.with_unit(unit) + better
}

/// The numbers that stand at an axis, as they are in the data and as they are written, and the unit in which.
fn marks(axis: &Axis, scale: Scale, about: usize) -> (Vec<(f64, String)>, String) {
    let (divisor, unit) = unit::of_axis(scale.most, &axis.unit);
    let shown = Scale { least: scale.least / divisor, most: scale.most / divisor, ..scale };
    let (marks, step) = shown.marks(about);
    let write =
        |mark: f64| (mark * divisor, unit::mark(mark, if scale.doubles { mark } else { step }, shown.most));
    (marks.into_iter().map(write).collect(), unit)
}
