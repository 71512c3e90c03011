//! Axes of plots as SVG: places, marks, grids and labels, in colours that the page defines.

use std::fmt::Write;

use crate::markup::escape;

/// How wide a plot is.
pub const WIDTH: f64 = 520.0;
/// How high a plot is.
pub const HEIGHT: f64 = 320.0;
/// Room for the marks along y.
pub const LEFT: f64 = 64.0;
/// Room to the right.
pub const RIGHT: f64 = 16.0;
/// Room above.
pub const TOP: f64 = 14.0;
/// Room for the marks along x.
pub const BOTTOM: f64 = 46.0;
/// The most marks that an axis can have without running together.
const MARKS_MAX: usize = 8;

/// From values to places on the paper.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// The value at its beginning.
    pub low: f64,
    /// The value at its end.
    pub high: f64,
    from: f64,
    to: f64,
    /// Whether it is logarithmic.
    pub logarithmic: bool,
}

impl Axis {
    /// Where a value lies.
    pub fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.logarithmic { value.ln() } else { value };
        let share = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low));
        self.from + share * (self.to - self.from)
    }

    /// An axis along x between these values.
    pub fn along_x(low: f64, high: f64, logarithmic: bool) -> Axis {
        Axis {
            low,
            high,
            from: LEFT,
            to: WIDTH - RIGHT,
            logarithmic,
        }
    }

    /// An axis along y between these values.
    pub fn along_y(low: f64, high: f64, logarithmic: bool) -> Axis {
        Axis {
            low,
            high,
            from: HEIGHT - BOTTOM,
            to: TOP,
            logarithmic,
        }
    }
}

/// Powers of two around positive values, so few that they do not run together. The first and the
/// last are the ends of the axis.
pub fn binary_marks(low: f64, high: f64) -> Vec<f64> {
    let first = (low.log2() + 1e-9).floor() as i32;
    let last = ((high.log2() - 1e-9).ceil() as i32).max(first + 1);
    let every = ((last - first) as usize).div_ceil(MARKS_MAX).max(1);
    let mut marks: Vec<f64> = (first..=last)
        .step_by(every)
        .map(|power| 2_f64.powi(power))
        .collect();
    if (last - first) as usize % every != 0 {
        marks.push(2_f64.powi(last));
    }
    marks
}

/// The marks 1, 2, 5, 10 around positive values, or powers of ten where those are too
/// many. The first and the last are the ends of the axis.
pub fn logarithmic_marks(low: f64, high: f64) -> Vec<f64> {
    for steps in [&[1.0, 2.0, 5.0][..], &[1.0]] {
        let decade = |value: f64| value.log10().floor() as i32;
        let all: Vec<f64> = (decade(low)..=decade(high) + 1)
            .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
            .collect();
        let first = all.iter().rposition(|mark| *mark <= low).unwrap_or(0);
        let last = all.iter().position(|mark| *mark >= high);
        let last = last.unwrap_or(all.len() - 1).max(first + 1);
        let marks = &all[first..=last.min(all.len() - 1)];
        if marks.len() <= MARKS_MAX {
            return marks.to_vec();
        }
        if steps.len() == 1 {
            let every = marks.len().div_ceil(MARKS_MAX);
            let mut thinned: Vec<f64> = marks.iter().step_by(every).copied().collect();
            if (marks.len() - 1) % every != 0 {
                thinned.extend(marks.last());
            }
            return thinned;
        }
    }
    Vec::new()
}

/// The beginning of a drawing.
pub fn open(title: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(title)
    )
}

/// Marks and lines of the axis along x.
pub fn grid_x(out: &mut String, x: Axis, marks: &[f64], text: impl Fn(f64) -> String) {
    for &value in marks {
        let at = x.place(value);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 17.0,
            escape(&text(value))
        );
    }
}

/// Marks and lines of the axis along y.
pub fn grid_y(out: &mut String, y: Axis, marks: &[f64], text: impl Fn(f64) -> String) {
    for &value in marks {
        let at = y.place(value);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0,
            escape(&text(value))
        );
    }
}

/// The two axes, and what lies along them.
pub fn labels(out: &mut String, along_x: &str, along_y: &str) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(11 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, right),
        HEIGHT - 8.0,
        escape(along_x),
        f64::midpoint(TOP, bottom),
        escape(along_y)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_axes_mark_few_round_values() {
        assert_eq!(
            logarithmic_marks(562.0, 3394.0),
            [500.0, 1000.0, 2000.0, 5000.0]
        );
        assert_eq!(logarithmic_marks(10.0, 10.0), [10.0, 20.0]);
        assert_eq!(logarithmic_marks(1.2, 460_000.0).len(), 7);
        for (low, high) in [(1e-9, 1e9), (0.3, 0.30001), (3.0, 90_000.0)] {
            let marks = logarithmic_marks(low, high);
            assert!(marks.len() <= MARKS_MAX + 1, "{marks:?}");
            assert!(marks[0] <= low * 1.000_001 && *marks.last().unwrap() >= high);
            assert!(marks.windows(2).all(|pair| pair[0] < pair[1]), "{marks:?}");
        }
    }

    #[test]
    fn binary_axes_mark_few_powers_around_all() {
        assert_eq!(binary_marks(8.0, 64.0), [8.0, 16.0, 32.0, 64.0]);
        assert_eq!(binary_marks(64.0, 64.0), [64.0, 128.0]);
        let marks = binary_marks(8.0, 1_048_576.0);
        assert!(marks.len() <= MARKS_MAX + 1, "{marks:?}");
        assert_eq!((marks[0], marks[marks.len() - 1]), (8.0, 1_048_576.0));
    }
}
