//! Colours of charts, by their use: what the charts draw with in light pages, and what the style sheet puts in their place in dark ones.
//!
//! The colours of series are told apart with all common kinds of colour blindness; series differ in the shape of their points as well.

use plotters::style::RGBColor;

/// A colour in light and in dark pages. The light ones differ from each other, since the style sheet finds what it replaces by them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Colour {
    pub(super) light: u32,
    pub(super) dark: u32,
}

impl Colour {
    pub(super) const fn rgb(self) -> RGBColor {
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }
}

/// Numbers and names of axes.
pub(super) const TEXT: Colour = Colour { light: 0x004B_5361, dark: 0x00B4_BCC8 };
/// Lines across.
pub(super) const GRID: Colour = Colour { light: 0x00E2_E5EA, dark: 0x002E_343D };
/// Axes.
pub(super) const AXIS: Colour = Colour { light: 0x00A3_ABB8, dark: 0x0059_6270 };
/// Behind the chart.
pub(super) const BACKGROUND: Colour = Colour { light: 0x00FF_FFFF, dark: 0x0016_1A20 };
/// Text upon the colour of a series.
pub(super) const ON_SERIES: Colour = Colour { light: 0x00FF_FFFE, dark: 0x0010_1318 };

/// Colours of series.
pub(super) const SERIES: [Colour; 6] = [
    Colour { light: 0x0000_62A3, dark: 0x005A_B4EC },
    Colour { light: 0x00C2_4E00, dark: 0x00FF_9557 },
    Colour { light: 0x0000_7F60, dark: 0x003F_CBA2 },
    Colour { light: 0x00A8_4683, dark: 0x00EA_9CCB },
    Colour { light: 0x0086_6200, dark: 0x00E8_C255 },
    Colour { light: 0x0059_6378, dark: 0x00AE_B8C9 },
];

/// The colour of a series by its place in the legend.
pub(super) const fn series(at: usize) -> Colour {
    SERIES[at % SERIES.len()]
}

/// Rules that give every colour of a chart its dark value.
pub(super) fn dark_rules() -> String {
    let mut rules = String::new();
    for Colour { light, dark } in [TEXT, GRID, AXIS, BACKGROUND, ON_SERIES].into_iter().chain(SERIES) {
        for property in ["fill", "stroke"] {
            rules.push_str(&format!("svg [{property}=\"#{light:06X}\"]{{{property}:#{dark:06X}}}"));
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.1).
    fn luminance(colour: u32) -> f64 {
        let [_, channels @ ..] = colour.to_be_bytes();
        let linear = channels.map(|channel| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn everything_can_be_read_on_its_background() {
        for colour in SERIES.into_iter().chain([TEXT]) {
            assert!(contrast(colour.light, BACKGROUND.light) >= 4.5, "{colour:06X?} on light");
            assert!(contrast(colour.dark, BACKGROUND.dark) >= 4.5, "{colour:06X?} on dark");
        }
        for colour in SERIES {
            assert!(contrast(colour.light, ON_SERIES.light) >= 4.5, "text on {colour:06X?}");
            assert!(contrast(colour.dark, ON_SERIES.dark) >= 4.5, "dark text on {colour:06X?}");
        }
    }

    #[test]
    fn light_colours_differ() {
        let mut colours: Vec<u32> = SERIES
            .into_iter()
            .chain([TEXT, GRID, AXIS, BACKGROUND, ON_SERIES])
            .map(|colour| colour.light)
            .collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), SERIES.len() + 5);
    }
}
