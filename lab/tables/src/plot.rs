//! Plots of a table as inline SVG, in colours that the page defines: paper against model,
//! and the error of each row beside its tolerance.

use std::fmt::Write;

use barewire_report::axes::{grid_x, open};

use crate::cells::figures;
use crate::expected::Kind;
use crate::join::Line;
use crate::text::cells;

pub(crate) use barewire_report::axes::{
    Axis, BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, grid_y, labels, logarithmic_marks,
};
pub(crate) use barewire_report::markup::escape;

/// Round marks from `-reach` to `reach` or a little more.
fn marks_around_zero(reach: f64) -> Vec<f64> {
    let decade = 10_f64.powf((reach / 2.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|step| step * decade)
        .into_iter()
        .find(|step| reach / step <= 3.0)
        .unwrap_or(reach);
    let steps = (reach / step).ceil() as i32;
    (-steps..=steps).map(|n| f64::from(n) * step).collect()
}

/// The class of a line in the page's colours; the mark has its own shape too.
fn class(line: &Line) -> &'static str {
    match (line.verdict.is_failure(), line.kind) {
        (true, _) => "bad",
        (_, Some(Kind::Calibrated)) => "calibrated",
        (_, Some(Kind::Misprint)) => "misprint",
        _ => "predicted",
    }
}

/// A dot for what is predicted, a square for what was fitted, a cross for a misprint.
fn mark(class: &str, kind: Option<Kind>, x: f64, y: f64, title: &str) -> String {
    let title = if title.is_empty() {
        String::new()
    } else {
        format!("<title>{}</title>", escape(title))
    };
    match kind {
        Some(Kind::Calibrated) => format!(
            "<rect class=\"mark open {class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"8\" \
             height=\"8\">{title}</rect>",
            x - 4.0,
            y - 4.0
        ),
        Some(Kind::Misprint) => format!(
            "<path class=\"mark open {class}\" d=\"M{:.1} {:.1}l8 8m0 -8l-8 8\">{title}</path>",
            x - 4.0,
            y - 4.0
        ),
        _ => format!(
            "<circle class=\"mark {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\">{title}</circle>"
        ),
    }
}

/// What the marks mean, in the page's own text; only those that `lines` have.
pub(crate) fn legend(lines: &[&Line]) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for (class_name, kind, words) in [
        ("predicted", Kind::Predicted, "predicted"),
        (
            "calibrated",
            Kind::Calibrated,
            "calibrated: a parameter was fitted on it",
        ),
        ("misprint", Kind::Misprint, "known misprint, not judged"),
        ("bad", Kind::Predicted, "outside its tolerance"),
    ] {
        let present = |line: &&&Line| line.error_pct.is_some() && class(line) == class_name;
        if lines.iter().any(|line| present(&line)) {
            let key = mark(class_name, Some(kind), 6.0, 6.0, "");
            let _ = write!(
                out,
                "<li><svg class=\"key\" viewBox=\"0 0 12 12\" aria-hidden=\"true\">{key}</svg>\
                 {words}</li>"
            );
        }
    }
    out + "</ul>"
}

fn describe(line: &Line) -> String {
    let [row, quantity, unit, paper, model, error, ..] = cells(line);
    format!("{row}, {quantity}: paper {paper}, model {model} {unit}, {error}")
}

/// The unit of all lines, if they have one in common.
fn common_unit(lines: &[&Line]) -> String {
    match lines.split_first() {
        Some((first, rest)) if rest.iter().all(|line| line.unit == first.unit) => {
            format!(", {}", first.unit)
        }
        _ => ", each in its unit".to_owned(),
    }
}

/// Paper along x, model along y, both logarithmic, and the line where they agree.
/// `None` if no row has both values above zero.
pub(crate) fn paper_against_model(title: &str, lines: &[&Line]) -> Option<String> {
    let sound = |value: &f64| value.is_finite() && *value > 0.0;
    let points: Vec<(&Line, f64, f64)> = lines
        .iter()
        .filter_map(|line| {
            let paper = line.published.filter(sound)?;
            Some((*line, paper, line.model.filter(sound)?))
        })
        .collect();
    let values = || points.iter().flat_map(|&(_, paper, model)| [paper, model]);
    let low = values().reduce(f64::min)?;
    let high = values().reduce(f64::max)?;
    let marks = logarithmic_marks(low, high);
    let (low, high) = (*marks.first()?, *marks.last()?);
    let (x, y) = (
        Axis::along_x(low, high, true),
        Axis::along_y(low, high, true),
    );
    let mut out = open(&format!("{title}: paper against model"));
    grid_y(&mut out, y, &marks, figures);
    grid_x(&mut out, x, &marks, figures);
    let unit = common_unit(lines);
    labels(&mut out, &format!("paper{unit}"), &format!("model{unit}"));
    let _ = write!(
        out,
        "<path class=\"equal\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
        x.place(low),
        y.place(low),
        x.place(high),
        y.place(high)
    );
    for (line, paper, model) in points {
        let (at_x, at_y) = (x.place(paper), y.place(model));
        out += &mark(class(line), line.kind, at_x, at_y, &describe(line));
    }
    Some(out + "</svg>")
}

/// The error of each row, in the order of the table, over the band that is allowed.
/// `None` if no row has an error.
pub(crate) fn errors(title: &str, lines: &[&Line]) -> Option<String> {
    let points: Vec<(&Line, f64, f64)> = lines
        .iter()
        .filter_map(|line| {
            let error = line.error_pct.filter(|error| error.is_finite())?;
            Some((*line, error, line.tolerance_pct?))
        })
        .collect();
    let reach = points
        .iter()
        .map(|(_, error, tolerance)| error.abs().max(*tolerance))
        .reduce(f64::max)?
        .max(0.1);
    // A little more, so that the edge of the band is seen.
    let marks = marks_around_zero(1.1 * reach);
    let y = Axis::along_y(*marks.first()?, *marks.last()?, false);
    let x = Axis::along_x(0.0, points.len() as f64, false);
    let mut out = open(&format!("{title}: error of each row"));
    for (index, (line, _, tolerance)) in points.iter().enumerate() {
        if line.kind == Some(Kind::Misprint) {
            continue;
        }
        let (from, top) = (x.place(index as f64), y.place(*tolerance));
        let _ = write!(
            out,
            "<rect class=\"allowed\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\"/>",
            x.place(index as f64 + 1.0) - from,
            y.place(-tolerance) - top
        );
    }
    grid_y(&mut out, y, &marks, |value| format!("{} %", figures(value)));
    labels(
        &mut out,
        "rows, in the order of the table",
        "model / paper - 1",
    );
    let zero = y.place(0.0);
    let right = WIDTH - RIGHT;
    let _ = write!(
        out,
        "<path class=\"equal\" d=\"M{LEFT} {zero:.1}H{right}\"/>"
    );
    for (index, (line, error, _)) in points.iter().enumerate() {
        let (at_x, at_y) = (x.place(index as f64 + 0.5), y.place(*error));
        out += &mark(class(line), line.kind, at_x, at_y, &describe(line));
    }
    Some(out + "</svg>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use barewire_report::markup::check_well_formed;

    #[test]
    fn every_row_has_its_mark_in_both_plots() {
        let run = sample::run(&[]);
        let lines: Vec<&Line> = run.lines.iter().collect();
        for svg in [
            paper_against_model("a <b>", &lines).unwrap(),
            errors("a <b>", &lines).unwrap(),
        ] {
            check_well_formed(&svg, &[]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches("class=\"mark predicted\"").count(), 2);
            assert_eq!(svg.matches("class=\"mark open calibrated\"").count(), 1);
            assert_eq!(svg.matches("class=\"mark open misprint\"").count(), 1);
            assert!(svg.contains("20 cells, time: paper 240, model 300 us, +25.00 %"));
            assert!(svg.contains("a &lt;b&gt;"));
        }
        let legend = legend(&lines);
        check_well_formed(&legend, &[]);
        assert_eq!(legend.matches("<li>").count(), 3);
    }

    #[test]
    fn nothing_to_draw_is_no_plot() {
        let mut line = sample::run(&[]).lines.remove(0);
        line.model = None;
        line.error_pct = None;
        assert!(paper_against_model("t", &[&line]).is_none());
        assert!(errors("t", &[&line]).is_none());
        line.model = Some(f64::NAN);
        line.error_pct = Some(f64::NAN);
        assert!(paper_against_model("t", &[&line]).is_none());
        assert!(errors("t", &[&line]).is_none());
    }

    #[test]
    fn one_exact_value_is_enough() {
        let mut line = sample::run(&[]).lines.remove(3);
        line.tolerance_pct = Some(0.0);
        for value in [25.6, 10.0, 1e-7] {
            line.published = Some(value);
            line.model = Some(value);
            for svg in [paper_against_model("t", &[&line]), errors("t", &[&line])] {
                let svg = svg.unwrap();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn marks_around_zero_are_few_and_round() {
        assert_eq!(
            marks_around_zero(3.0),
            [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]
        );
        for reach in [0.1, 0.7, 4.0, 15.9, 99.0, 1234.0] {
            let marks = marks_around_zero(reach);
            assert!(
                marks.len() <= 7 && *marks.last().unwrap() >= reach,
                "{marks:?}"
            );
        }
    }
}
