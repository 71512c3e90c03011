//! A result's tables as plots: lines over what was varied, or bars where that has names.
//!
//! The columns that say what was varied are the table's keys; where those do not tell the rows
//! apart, also the columns of names, and as many from the left as it takes. The number among them
//! that takes the most values goes along x, on a logarithmic axis if it spans more than two decades;
//! if none is a number, the rows are bars. What was found is one plot for each unit, with a line for
//! each quantity; if there is more than one key, one plot for each quantity, with a line for each
//! value of the other keys.

#[cfg(test)]
mod tests;

use std::fmt::Write;

use crate::cells::figures;
use crate::plot::{
    Axis, BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, escape, grid_y, labels, logarithmic_marks,
};
use crate::result_table::{Entry, ResultTable};

/// Colours that there are; lines beyond them are broken.
const COLOURS: usize = 8;
/// More lines than these in one plot cannot be told apart.
const LINES_MAX: usize = 12;
/// Spans above this are drawn on a logarithmic axis.
const SPAN_LINEAR_MAX: f64 = 100.0;
/// About as wide as a letter of the labels.
const LETTER: f64 = 7.0;
/// Room to the right for the half of the last number on the axis.
pub(crate) const OVERHANG: f64 = 10.0;
const LEGEND_ROW: f64 = 19.0;
const BAR: f64 = 13.0;
/// Letters of a name beside a bar.
const NAME_LETTERS_MAX: usize = 34;

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    /// What it shows.
    pub title: String,
    along_x: String,
    along_y: String,
    series: Vec<Series>,
    /// The names of the bars; empty if there are lines.
    names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Series {
    name: String,
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    /// Where, or which of the names.
    x: f64,
    y: f64,
    half_width: f64,
}

/// The plots of a table; none of a single row, of what was never anything but zero, or of a
/// count that is the same everywhere.
pub(crate) fn charts(table: &ResultTable) -> Vec<Chart> {
    if table.rows.len() < 2 {
        return Vec::new();
    }
    let view = View::of(table);
    let mut charts = Vec::new();
    for (unit, columns) in view.by_unit() {
        let lines = columns.len() * view.others.len();
        let is_one_each = view.others.len() > 1 || lines > LINES_MAX;
        match is_one_each {
            true => charts.extend(columns.iter().map(|column| view.chart(&[*column], &unit))),
            false => charts.push(view.chart(&columns, &unit)),
        }
    }
    charts.retain(|chart| chart.points().any(|point| point.y != 0.0));
    charts
}

/// A table, looked at as plots.
struct View<'a> {
    table: &'a ResultTable,
    /// The key along x.
    x: usize,
    is_numeric: bool,
    /// What else was varied: for each combination its name and its rows.
    others: Vec<(String, Vec<usize>)>,
    /// The columns that were found.
    found: Vec<usize>,
}

impl View<'_> {
    fn of(table: &ResultTable) -> View<'_> {
        View::with_keys(table, &keys(table))
    }

    fn with_keys<'a>(table: &'a ResultTable, keys: &[usize]) -> View<'a> {
        let numeric = keys
            .iter()
            .copied()
            .filter(|column| is_numeric(table, *column));
        // The first of those with the most values.
        let most = numeric.rev().max_by_key(|column| distinct(table, *column));
        let varied = most.filter(|column| distinct(table, *column) > 1);
        let x = varied.or(keys.first().copied()).unwrap_or(0);
        let others: Vec<usize> = keys
            .iter()
            .copied()
            .filter(|column| *column != x && distinct(table, *column) > 1)
            .collect();
        // A count that is the same everywhere, or what was not varied this time.
        let is_fixed =
            |column: usize| table.columns[column].unit.is_empty() && distinct(table, column) == 1;
        let found = (0..table.columns.len()).filter(|column| {
            let is_key = keys.contains(column) || *column == x;
            !is_key && !table.is_of_names(*column) && !is_fixed(*column)
        });
        View {
            table,
            x,
            is_numeric: varied.is_some(),
            others: groups(table, &others),
            found: found.collect(),
        }
    }

    /// The columns that were found, by their units in the order of the columns.
    fn by_unit(&self) -> Vec<(String, Vec<usize>)> {
        let mut units: Vec<(String, Vec<usize>)> = Vec::new();
        for &column in &self.found {
            let unit = &self.table.columns[column].unit;
            match units.iter_mut().find(|(known, _)| known == unit) {
                Some((_, columns)) => columns.push(column),
                None => units.push((unit.clone(), vec![column])),
            }
        }
        units
    }

    fn chart(&self, columns: &[usize], unit: &str) -> Chart {
        let names = match self.is_numeric {
            true => Vec::new(),
            false => self.names(),
        };
        let mut series = Vec::new();
        for &column in columns {
            for (other, rows) in &self.others {
                let quantity = &self.table.columns[column].name;
                let name = match other.as_str() {
                    "" => quantity.clone(),
                    other => other.to_owned(),
                };
                let mut points: Vec<Point> = rows
                    .iter()
                    .filter_map(|row| self.point(*row, column, &names))
                    .collect();
                points.sort_by(|a, b| a.x.total_cmp(&b.x));
                series.push(Series { name, points });
            }
        }
        let is_zero = |series: &Series| series.points.iter().all(|point| point.y == 0.0);
        if !series.iter().all(is_zero) {
            series.retain(|series| !is_zero(series));
        }
        let quantities: Vec<&str> = columns
            .iter()
            .map(|column| self.table.columns[*column].name.as_str())
            .collect();
        let quantities = match quantities.as_slice() {
            [a, b, c, rest @ ..] if rest.len() > 1 => {
                format!("{a}, {b}, {c} and {} more", rest.len())
            }
            few => few.join(", "),
        };
        Chart {
            title: quantities.clone(),
            along_x: self.table.columns[self.x].heading(),
            along_y: match (columns.len(), unit) {
                (1, "") => quantities,
                (1, unit) => format!("{quantities}, {unit}"),
                (_, unit) => unit.to_owned(),
            },
            series,
            names,
        }
    }

    /// The names along x, each once.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for row in &self.table.rows {
            let name = row[self.x].shown();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn point(&self, row: usize, column: usize, names: &[String]) -> Option<Point> {
        let row = &self.table.rows[row];
        let x = match self.is_numeric {
            true => row[self.x].number()?,
            false => {
                let name = row[self.x].shown();
                names.iter().position(|known| *known == name)? as f64
            }
        };
        match row[column] {
            Entry::Number { value, half_width } if value.is_finite() => Some(Point {
                x,
                y: value,
                half_width: half_width.unwrap_or(0.0),
            }),
            _ => None,
        }
    }
}

/// The columns that tell the rows apart: the table's keys, or with them those that hold names,
/// or with them as many from the left as it takes.
fn keys(table: &ResultTable) -> Vec<usize> {
    let columns = table.columns.len();
    let named = |column: &usize| *column < table.keys || table.is_of_names(*column);
    let up_to = |end: usize| (0..columns).filter(move |column| *column < end || named(column));
    let leading: Vec<usize> = (0..table.keys).collect();
    let more = (table.keys..columns).map(|end| up_to(end).collect());
    let mut tries = std::iter::once(leading.clone()).chain(more);
    let tells_apart = |keys: &Vec<usize>| groups(table, keys).len() == table.rows.len();
    tries.find(tells_apart).unwrap_or(leading)
}

fn is_numeric(table: &ResultTable, column: usize) -> bool {
    let is_number = |row: &Vec<Entry>| row[column].number().is_some_and(f64::is_finite);
    table.rows.iter().all(is_number)
}

fn distinct(table: &ResultTable, column: usize) -> usize {
    let mut seen: Vec<String> = table.rows.iter().map(|row| exact(&row[column])).collect();
    seen.sort();
    seen.dedup();
    seen.len()
}

fn exact(entry: &Entry) -> String {
    match entry {
        Entry::Number { value, .. } => value.to_string(),
        other => other.shown(),
    }
}

/// The combinations of these columns, in the order of their first rows.
fn groups(table: &ResultTable, columns: &[usize]) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (at, row) in table.rows.iter().enumerate() {
        let part = |column: &usize| match &row[*column] {
            Entry::Text(text) => text.clone(),
            other => {
                let of = &table.columns[*column];
                let text = format!("{} {} {}", of.name, exact(other), of.unit);
                text.trim_end().to_owned()
            }
        };
        let name = columns.iter().map(part).collect::<Vec<_>>().join(", ");
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(at),
            None => groups.push((name, vec![at])),
        }
    }
    groups
}

/// Round marks around values, at most seven. The first and the last are the ends of the axis.
fn linear_marks(low: f64, high: f64) -> Vec<f64> {
    let span = if high > low {
        high - low
    } else {
        low.abs().max(1.0)
    };
    let decade = 10_f64.powf((span / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|step| step * decade)
        .into_iter()
        .find(|step| span / step <= 5.0)
        .unwrap_or(span);
    let first = (low / step + 1e-9).floor() as i64;
    let last = ((high / step - 1e-9).ceil() as i64).max(first + 1);
    (first..=last).map(|n| n as f64 * step).collect()
}

/// The axis for values between these, with its marks.
fn axis(
    low: f64,
    high: f64,
    is_from_zero: bool,
    along: fn(f64, f64, bool) -> Axis,
) -> (Axis, Vec<f64>) {
    let is_logarithmic = low > 0.0 && high / low > SPAN_LINEAR_MAX;
    let marks = match is_logarithmic {
        true => logarithmic_marks(low, high),
        false if is_from_zero => linear_marks(low.min(0.0), high.max(0.0)),
        false => linear_marks(low, high),
    };
    let (first, last) = (marks[0], marks[marks.len() - 1]);
    (along(first, last, is_logarithmic), marks)
}

/// A number on an axis, short also if it is large.
fn mark_text(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 1e6 => format!("{}e6", figures(value / 1e6)),
        small if small < 1e-3 => format!("{value:e}"),
        _ => figures(value),
    }
}

impl Chart {
    /// As inline SVG, in colours that the page defines.
    pub fn svg(&self) -> String {
        self.drawn().0
    }

    /// How high that is, as [`WIDTH`] and [`OVERHANG`] are how wide.
    pub fn height(&self) -> f64 {
        self.drawn().1
    }

    fn drawn(&self) -> (String, f64) {
        let (height, body) = match self.names.is_empty() {
            true => self.lines(),
            false => self.bars(),
        };
        let (legend, legend_height) = self.legend(height);
        let svg = format!(
            "<svg viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" aria-label=\"{}\">{body}{legend}</svg>",
            WIDTH + OVERHANG,
            height + legend_height,
            escape(&format!("{} against {}", self.title, self.along_x))
        );
        (svg, height + legend_height)
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    fn range(&self, of: impl Fn(&Point) -> [f64; 2]) -> (f64, f64) {
        let values = self.points().flat_map(of);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    }

    /// The least and the greatest y with their intervals, but for what those have below 0
    /// where no y is.
    fn range_y(&self) -> (f64, f64) {
        let (low, high) = self.range(|point| [point.y, point.y + point.half_width]);
        let (low_all, _) = self.range(|point| [point.y - point.half_width, point.y]);
        match low >= 0.0 && low_all <= 0.0 {
            true => (low, high),
            false => (low_all, high),
        }
    }

    fn lines(&self) -> (f64, String) {
        let (low, high) = self.range(|point| [point.x, point.x]);
        let (x, marks_x) = axis(low, high, low >= 0.0 && low < 0.3 * high, Axis::along_x);
        let (low, high) = self.range_y();
        let is_from_zero = low >= 0.0 && low < 0.6 * high;
        let (y, marks_y) = axis(low, high, is_from_zero, Axis::along_y);
        let mut out = String::new();
        grid_y(&mut out, y, &marks_y, mark_text);
        for value in marks_x {
            let at = x.place(value);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 17.0,
                mark_text(value)
            );
        }
        labels(&mut out, &self.along_x, &self.along_y);
        for (number, series) in self.series.iter().enumerate() {
            self.line(&mut out, number, series, x, y);
        }
        (HEIGHT, out)
    }

    fn line(&self, out: &mut String, number: usize, series: &Series, x: Axis, y: Axis) {
        let class = colour(number);
        let places: Vec<String> = series
            .points
            .iter()
            .map(|point| format!("{:.1} {:.1}", x.place(point.x), y.place(point.y)))
            .collect();
        let again = if number < COLOURS { "" } else { " again" };
        let _ = write!(
            out,
            "<path class=\"line{again} {class}\" d=\"M{}\"/>",
            places.join("L")
        );
        for point in &series.points {
            let at = x.place(point.x);
            if point.half_width > 0.0 {
                let low = y.place((point.y - point.half_width).max(y.low));
                let high = y.place(point.y + point.half_width);
                let _ = write!(
                    out,
                    "<path class=\"spread {class}\" d=\"M{0:.1} {high:.1}h8m-4 0V{low:.1}m-4 0h8\"/>",
                    at - 4.0
                );
            }
        }
        for point in &series.points {
            let place = (x.place(point.x), y.place(point.y));
            let title = self.describe(series, point, &exact_number(point.x));
            *out += &mark(number, place, &title);
        }
    }

    fn describe(&self, series: &Series, point: &Point, x: &str) -> String {
        let entry = Entry::Number {
            value: point.y,
            half_width: Some(point.half_width),
        };
        let name = &series.name;
        let at = match self.names.is_empty() {
            true => format!("{} {x}", self.along_x),
            false => x.to_owned(),
        };
        match self.along_y.strip_prefix(name.as_str()) {
            Some(_) => format!("{at}: {} {}", self.along_y, entry.shown()),
            None => format!("{at}: {name}: {} {}", self.along_y, entry.shown()),
        }
    }

    fn bars(&self) -> (f64, String) {
        let letters = self.names.iter().map(|name| name.chars().count()).max();
        let letters = letters.unwrap_or(0).min(NAME_LETTERS_MAX);
        let left = letters as f64 * LETTER + 16.0;
        let group = BAR * self.series.len() as f64 + 11.0;
        let bottom = TOP + group * self.names.len() as f64;
        let (low, high) = self.range_y();
        let marks = linear_marks(low.min(0.0), high.max(0.0));
        let (first, last) = (marks[0], marks[marks.len() - 1]);
        // Room for the values beside the bars.
        let scale = (WIDTH - RIGHT - 52.0 - left) / (last - first);
        let place = |value: f64| left + (value - first) * scale;
        let mut out = String::new();
        for &value in &marks {
            let at = place(value);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 17.0,
                mark_text(value)
            );
        }
        for (number, name) in self.names.iter().enumerate() {
            let middle = TOP + group * (number as f64 + 0.5) + 4.0;
            let _ = write!(
                out,
                "<text class=\"name\" x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                escape(&cut(name, NAME_LETTERS_MAX))
            );
        }
        for (number, series) in self.series.iter().enumerate() {
            for point in &series.points {
                let top = TOP + group * point.x + 5.5 + BAR * number as f64;
                let name = self.names.get(point.x as usize);
                let title = self.describe(series, point, name.map_or("", String::as_str));
                bar(&mut out, number, point, top, &title, place);
            }
        }
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{0:.1} {TOP}V{bottom:.1}\"/>\
             <text x=\"{1:.1}\" y=\"{2:.1}\" text-anchor=\"middle\">{3}</text>",
            place(0.0),
            f64::midpoint(left, WIDTH - RIGHT - 52.0),
            bottom + 36.0,
            escape(&self.along_y)
        );
        (bottom + 44.0, out)
    }

    /// The names of the series below the plot, and how high that is.
    fn legend(&self, top: f64) -> (String, f64) {
        if self.series.len() < 2 {
            return (String::new(), 0.0);
        }
        let (mut out, mut x, mut row) = (String::new(), LEFT, 0.0);
        for (number, series) in self.series.iter().enumerate() {
            let name = cut(&series.name, 56);
            let width = 20.0 + name.chars().count() as f64 * LETTER + 14.0;
            if x > LEFT && x + width > WIDTH {
                (x, row) = (LEFT, row + 1.0);
            }
            let y = top + row * LEGEND_ROW + 10.0;
            match self.names.is_empty() {
                true => out += &mark(number, (x + 6.0, y), ""),
                false => {
                    let class = colour(number);
                    let (left, above) = (x + 1.0, y - 5.0);
                    let _ = write!(
                        out,
                        "<rect class=\"bar {class}\" x=\"{left:.1}\" y=\"{above:.1}\" width=\"10\" height=\"10\"/>"
                    );
                }
            }
            let _ = write!(
                out,
                "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 18.0,
                y + 4.5,
                escape(&name)
            );
            x += width;
        }
        (out, (row + 1.0) * LEGEND_ROW + 6.0)
    }
}

fn bar(
    out: &mut String,
    number: usize,
    point: &Point,
    top: f64,
    title: &str,
    place: impl Fn(f64) -> f64,
) {
    let class = colour(number);
    let (from, to) = (place(point.y.min(0.0)), place(point.y.max(0.0)));
    let _ = write!(
        out,
        "<rect class=\"bar {class}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
         height=\"{:.1}\"><title>{}</title></rect>",
        to - from,
        BAR - 2.0,
        escape(title)
    );
    let middle = top + (BAR - 2.0) / 2.0;
    let (low, high) = (
        place(point.y - point.half_width),
        place(point.y + point.half_width),
    );
    if point.half_width > 0.0 {
        let _ = write!(
            out,
            "<path class=\"spread name\" d=\"M{low:.1} {:.1}v6m0 -3H{high:.1}m0 -3v6\"/>",
            middle - 3.0
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        high.max(to) + 5.0,
        middle + 4.5,
        mark_text(point.y)
    );
}

fn exact_number(value: f64) -> String {
    value.to_string()
}

fn cut(text: &str, letters_max: usize) -> String {
    match text.chars().count() > letters_max {
        true => text.chars().take(letters_max - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn colour(number: usize) -> String {
    format!("s{}", number % COLOURS)
}

/// A mark of the shape and colour of its series: circle, square, triangle, diamond.
fn mark(number: usize, (x, y): (f64, f64), title: &str) -> String {
    let shape = match number % 4 {
        0 => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", x - 4.0),
        1 => format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5),
        2 => format!("M{x:.1} {:.1}l4.6 8h-9.2z", y - 5.0),
        _ => format!("M{x:.1} {:.1}l4.8 4.8l-4.8 4.8l-4.8 -4.8z", y - 4.8),
    };
    let title = match title {
        "" => String::new(),
        title => format!("<title>{}</title>", escape(title)),
    };
    format!(
        "<path class=\"dot {}\" d=\"{shape}\">{title}</path>",
        colour(number)
    )
}
