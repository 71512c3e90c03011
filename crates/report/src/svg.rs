//! Plots as inline SVG: lines over logarithmic axes, in colours that the page defines.

use std::fmt::Write;

use crate::axes::{Axis, binary_marks, grid_x, grid_y, labels, logarithmic_marks, open};
use crate::markup::escape;

/// One line of a plot.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// The colour class of the page: `limit`, or `c0` and so on.
    pub class: String,
    /// Points, ascending in x.
    pub points: Vec<(f64, f64)>,
}

/// A plot with logarithmic axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// What lies along x.
    pub x_label: String,
    /// What lies along y.
    pub y_label: String,
    /// How a value of x is written.
    pub x_text: fn(f64) -> String,
    /// How a value of y is written.
    pub y_text: fn(f64) -> String,
    /// Whether x goes in powers of two (sizes) rather than of ten.
    pub x_binary: bool,
    /// The lines.
    pub series: Vec<Series>,
}

/// The least and the greatest of values; `None` if there are none.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// Whether a point has a place on logarithmic axes.
fn has_place(&(x, y): &(f64, f64)) -> bool {
    x > 0.0 && y > 0.0 && x.is_finite() && y.is_finite()
}

/// A logarithmic axis from its first to its last mark.
fn axis(marks: &[f64], along: fn(f64, f64, bool) -> Axis) -> Option<Axis> {
    Some(along(*marks.first()?, *marks.last()?, true))
}

impl Plot {
    /// The plot as an SVG element; `None` if there is nothing to draw.
    pub fn svg(&self) -> Option<String> {
        let points = || {
            let all = self.series.iter().flat_map(|series| &series.points);
            all.copied().filter(has_place)
        };
        let (x_low, x_high) = range(points().map(|point| point.0))?;
        let (y_low, y_high) = range(points().map(|point| point.1))?;
        let x_marks = match self.x_binary {
            true => binary_marks(x_low, x_high),
            false => logarithmic_marks(x_low, x_high),
        };
        let y_marks = logarithmic_marks(y_low, y_high);
        let x = axis(&x_marks, Axis::along_x)?;
        let y = axis(&y_marks, Axis::along_y)?;
        let mut out = open(&self.title);
        grid_y(&mut out, y, &y_marks, self.y_text);
        grid_x(&mut out, x, &x_marks, self.x_text);
        labels(&mut out, &self.x_label, &self.y_label);
        for series in &self.series {
            draw(&mut out, series, x, y, self);
        }
        out.push_str("</svg>");
        Some(out)
    }

    /// The legend: one entry for each line, in the page's own text.
    pub fn legend(&self) -> String {
        let mut out = String::from("<ul class=\"legend\">");
        for series in &self.series {
            let _ = write!(
                out,
                "<li><svg class=\"key\" viewBox=\"0 0 28 10\" aria-hidden=\"true\">\
                 <path class=\"line {0}\" d=\"M1 5H27\"/></svg>{1}</li>",
                series.class,
                escape(&series.name)
            );
        }
        out + "</ul>"
    }
}

fn draw(out: &mut String, series: &Series, x: Axis, y: Axis, plot: &Plot) {
    let mut path = String::new();
    let mut dots = String::new();
    let points = series.points.iter().filter(|point| has_place(point));
    for (index, point) in points.enumerate() {
        let (at_x, at_y) = (x.place(point.0), y.place(point.1));
        let letter = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{at_x:.1} {at_y:.1}");
        let _ = write!(
            dots,
            "<circle class=\"dot {}\" cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"3\">\
             <title>{}: {} at {}</title></circle>",
            series.class,
            escape(&series.name),
            escape(&(plot.y_text)(point.1)),
            escape(&(plot.x_text)(point.0))
        );
    }
    let _ = write!(
        out,
        "<path class=\"line {}\" d=\"{path}\"/>{dots}",
        series.class
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::check_well_formed;

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        Plot {
            title: "A <title> & \"more\"".into(),
            x_label: "size".into(),
            y_label: "time".into(),
            x_text: |v| format!("{v} B"),
            y_text: |v| format!("{v} ns"),
            x_binary: true,
            series: vec![Series {
                name: "a <b>".into(),
                class: "c0".into(),
                points,
            }],
        }
    }

    #[test]
    fn plots_are_well_formed_and_finite() {
        let plot = plot(vec![(8.0, 100.0), (1024.0, 900.0), (2048.0, f64::NAN)]);
        let svg = plot.svg().unwrap();
        check_well_formed(&svg, &[]);
        check_well_formed(&plot.legend(), &[]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn one_point_is_enough_and_none_is_nothing() {
        assert!(plot(vec![(64.0, 100.0)]).svg().is_some());
        assert!(plot(Vec::new()).svg().is_none());
        assert!(plot(vec![(0.0, 0.0)]).svg().is_none());
    }
}
