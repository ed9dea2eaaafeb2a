//! Colours that can be told from the ground, light or dark.

/// Red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

const BLACK: Colour = Colour(0, 0, 0);
const WHITE: Colour = Colour(255, 255, 255);
/// The grounds of style.css.
const LIGHT: Colour = WHITE;
const DARK: Colour = Colour(0x16, 0x18, 0x1c);
/// The contrast that WCAG 2.1 asks of graphics (1.4.11).
const CONTRAST: f64 = 3.0;

/// Of what has no colour of its own, told apart by all kinds of eyes (Okabe and Ito 2008).
const OTHERS: [Colour; 6] = [
    Colour(0, 114, 178),
    Colour(213, 94, 0),
    Colour(0, 158, 115),
    Colour(204, 121, 167),
    Colour(86, 180, 233),
    Colour(150, 110, 200),
];

impl Colour {
    pub fn of_place(place: usize) -> Colour {
        OTHERS.get(place % OTHERS.len()).copied().unwrap_or(BLACK)
    }

    pub(crate) fn on_light(self) -> Colour {
        self.moved(BLACK, LIGHT)
    }

    pub(crate) fn on_dark(self) -> Colour {
        self.moved(WHITE, DARK)
    }

    pub(crate) fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// For a style: follows the page's ground.
    pub(crate) fn css(self) -> String {
        format!("light-dark({},{})", self.on_light().hex(), self.on_dark().hex())
    }

    /// Towards another colour, no further than the ground asks.
    fn moved(self, towards: Colour, ground: Colour) -> Colour {
        let at = |part: f64| self.mixed(towards, part);
        let enough = (0..=20).map(|step| at(f64::from(step) / 20.0));
        enough.into_iter().find(|colour| colour.contrast(ground) >= CONTRAST).unwrap_or(towards)
    }

    fn mixed(self, other: Colour, part: f64) -> Colour {
        let mix =
            |own: u8, other: u8| (f64::from(own) + (f64::from(other) - f64::from(own)) * part).round() as u8;
        Colour(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    fn contrast(self, other: Colour) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    /// Relative luminance by WCAG 2.1.
    fn luminance(self) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.03928 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_is_told_from_both_grounds_and_a_good_one_stays() {
        for red in (0..=255).step_by(51) {
            for green in (0..=255).step_by(51) {
                for blue in (0..=255).step_by(51) {
                    let colour = Colour(red, green, blue);
                    assert!(colour.on_light().contrast(LIGHT) >= CONTRAST, "{colour:?}");
                    assert!(colour.on_dark().contrast(DARK) >= CONTRAST, "{colour:?}");
                }
            }
        }
        let good = Colour(222, 66, 56);
        assert_eq!((good.on_light(), good.on_dark()), (good, good));
    }
}
