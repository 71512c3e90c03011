//! Figures that scenarios measure, with the library and without, over several rounds.

use std::collections::BTreeMap;

use crate::mode::Mode;

/// What the line of a program begins with that tells a figure: `figure: NAME: VALUE`.
const MARK: &str = "figure: ";

/// The figures in what a program has written, each with its name.
pub(crate) fn in_text(text: &str) -> Vec<(String, f64)> {
    let figure = |line: &str| {
        let (name, value) = line.strip_prefix(MARK)?.rsplit_once(": ")?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(figure).collect()
}

/// How many rounds are to be measured; 0: nothing is measured, the modes are compared.
pub(crate) fn rounds() -> u32 {
    let text = std::env::var("BAREWIRE_PROGRAMS_ROUNDS").unwrap_or_default();
    text.parse().unwrap_or(0)
}

/// The figures of all rounds.
#[derive(Default)]
pub(crate) struct Figures {
    by_name: BTreeMap<String, [Vec<f64>; 2]>,
}

impl Figures {
    /// Adds what one round has measured in one mode.
    pub(crate) fn add(&mut self, mode: Mode, figures: Vec<(String, f64)>) {
        for (name, value) in figures {
            let column = usize::from(mode != Mode::Plain);
            self.by_name.entry(name).or_default()[column].push(value);
        }
    }

    /// A line for each figure: medians and ranges without and with the library, and of the ratios of the rounds.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(name, [plain, library]): (&String, &[Vec<f64>; 2])| {
            let pairs = plain.iter().zip(library);
            let ratios: Vec<_> = pairs.map(|(plain, library)| library / plain).collect();
            format!(
                "{name}: without {}, with {}, gain {}",
                summary(plain),
                summary(library),
                summary(&ratios)
            )
        };
        self.by_name.iter().map(line).collect()
    }
}

/// Median and range.
fn summary(values: &[f64]) -> String {
    let mut sorted = values.to_owned();
    sorted.sort_by(f64::total_cmp);
    let (Some(&least), Some(&most)) = (sorted.first(), sorted.last()) else {
        return "not measured".into();
    };
    let middle = sorted.len() / 2;
    let median = match sorted.len() % 2 {
        1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    };
    let digits = if most < 100.0 { 2 } else { 0 };
    format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_among_other_lines() {
        let text = "begun\nfigure: calls: 100 B: 12.5\nfigure: nothing: x\n";
        assert_eq!(in_text(text), [("calls: 100 B".to_owned(), 12.5)]);
    }

    #[test]
    fn rounds_are_summed_up() {
        let mut figures = Figures::default();
        for (mode, value) in [
            (Mode::Plain, 100.0),
            (Mode::Preloaded, 150.0),
            (Mode::Preloaded, 600.0),
            (Mode::Plain, 200.0),
        ] {
            figures.add(mode, vec![("calls".into(), value)]);
        }
        let expected =
            "calls: without 150 (100 to 200), with 375 (150 to 600), gain 2.25 (1.50 to 3.00)";
        assert_eq!(figures.lines(), [expected]);
    }
}
