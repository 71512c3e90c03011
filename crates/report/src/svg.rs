//! Plots as inline SVG: lines over logarithmic axes, in colours that the page defines.

use std::fmt::Write;

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

const WIDTH: f64 = 520.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const HEIGHT: f64 = 320.0;
const BOTTOM: f64 = 52.0;

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let share = (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln());
        self.from + share * (self.to - self.from)
    }
}

/// The ends of an axis around the values, and the values it marks.
fn ticks(
    values: impl Iterator<Item = f64>,
    base: f64,
    most: usize,
) -> Option<(Vec<f64>, f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|v| v.is_finite() && *v > 0.0) {
        low = low.min(value);
        high = high.max(value);
    }
    if high <= 0.0 {
        return None;
    }
    let power = |value: f64| value.ln() / base.ln();
    let first = (power(low) + 1e-9).floor() as i32;
    let last = ((power(high) - 1e-9).ceil() as i32).max(first + 1);
    let step = ((last - first) as usize).div_ceil(most).max(1) as i32;
    let marks = (first..=last)
        .filter(|n| (n - first) % step == 0)
        .map(|n| base.powi(n))
        .collect();
    Some((marks, base.powi(first), base.powi(last)))
}

impl Plot {
    /// The plot as an SVG element; `None` if there is nothing to draw.
    pub fn svg(&self) -> Option<String> {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let base = if self.x_binary { 2.0 } else { 10.0 };
        let (x_marks, x_low, x_high) = ticks(points().map(|p| p.0), base, 7)?;
        let (y_marks, y_low, y_high) = ticks(points().map(|p| p.1), 10.0, 7)?;
        let x = Axis {
            low: x_low,
            high: x_high,
            from: LEFT + 8.0,
            to: WIDTH - RIGHT - 8.0,
        };
        let y = Axis {
            low: y_low,
            high: y_high,
            from: HEIGHT - BOTTOM,
            to: TOP,
        };
        let mut out = String::new();
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        );
        self.axes(&mut out, &x, &y, &x_marks, &y_marks);
        for series in &self.series {
            draw(&mut out, series, &x, &y, self);
        }
        out.push_str("</svg>");
        Some(out)
    }

    fn axes(&self, out: &mut String, x: &Axis, y: &Axis, x_marks: &[f64], y_marks: &[f64]) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for &mark in y_marks {
            let at = y.place(mark);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                escape(&(self.y_text)(mark))
            );
        }
        for &mark in x_marks {
            let at = x.place(mark);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                escape(&(self.x_text)(mark))
            );
        }
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"label\" transform=\"translate(14 {:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 12.0,
            escape(&self.x_label),
            f64::midpoint(TOP, bottom),
            escape(&self.y_label)
        );
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

fn draw(out: &mut String, series: &Series, x: &Axis, y: &Axis, plot: &Plot) {
    let mut path = String::new();
    let mut dots = String::new();
    let sound = |p: &&(f64, f64)| p.0 > 0.0 && p.1 > 0.0 && p.1.is_finite();
    for (index, point) in series.points.iter().filter(sound).enumerate() {
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

    #[test]
    fn axes_mark_few_round_values() {
        let (marks, low, high) = ticks([97.0, 45_000.0].into_iter(), 10.0, 8).unwrap();
        assert_eq!((low, high), (10.0, 100_000.0));
        assert_eq!(marks.len(), 5);
        let (marks, ..) = ticks([8.0, 1_048_576.0].into_iter(), 2.0, 10).unwrap();
        assert!(marks.len() <= 10, "{marks:?}");
    }
}
