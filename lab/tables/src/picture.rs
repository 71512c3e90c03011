//! The picture of a network: for a page or a file as SVG, for a terminal as text. Both are laid out
//! here: nothing else needs to be installed.
//!
//! Things stand in columns by how far they are from the first host; within a column they are
//! ordered by what they are joined to in the column before, so that few lines cross.

use std::fmt::Write;

use barewire_report::markup::escape;
use barewire_testbed::{Shape, Sketch, Thing};

/// A box, and the room around it.
const BOX_WIDTH: usize = 150;
const BOX_HEIGHT: usize = 54;
const COLUMN: usize = 290;
const ROW: usize = 92;
const MARGIN: usize = 24;
const LINE: usize = 18;
/// Columns that stand beside each other.
const ACROSS_MAX: usize = 5;

/// Where a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    column: usize,
    row: usize,
}

/// The number of the neighbours of each thing.
fn neighbours(sketch: &Sketch) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); sketch.things.len()];
    for join in &sketch.joins {
        let [a, b] = join.ends;
        all[a].push(b);
        all[b].push(a);
    }
    all
}

/// Columns, each with its things from the top.
fn columns(sketch: &Sketch) -> Vec<Vec<usize>> {
    let neighbours = neighbours(sketch);
    let mut column_of = vec![None; sketch.things.len()];
    let mut columns: Vec<Vec<usize>> = Vec::new();
    for first in 0..sketch.things.len() {
        if column_of[first].is_some() {
            continue;
        }
        let mut open = vec![first];
        let mut column = 0;
        column_of[first] = Some(column);
        while !open.is_empty() {
            if columns.len() <= column {
                columns.push(Vec::new());
            }
            let mut next = Vec::new();
            for &thing in &open {
                columns[column].push(thing);
                for &other in &neighbours[thing] {
                    if column_of[other].is_none() {
                        column_of[other] = Some(column + 1);
                        next.push(other);
                    }
                }
            }
            // Found in the order of the column before, they stand beside what they are joined to.
            open = next;
            column += 1;
        }
    }
    columns
}

fn places(sketch: &Sketch) -> (Vec<Place>, usize, usize) {
    let columns = columns(sketch);
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let mut places = vec![Place { column: 0, row: 0 }; sketch.things.len()];
    for (column, things) in columns.iter().enumerate() {
        for (row, &thing) in things.iter().enumerate() {
            // In halves of a row, so that short columns stand in the middle.
            let row = 2 * row + (rows - things.len());
            places[thing] = Place { column, row };
        }
    }
    (places, columns.len(), rows)
}

/// The middle of a box. A network of many columns is turned: they go down, not across.
fn middle(place: Place, turned: bool) -> (usize, usize) {
    let (x, y) = match turned {
        false => (2 * place.column, place.row),
        true => (place.row, 2 * place.column),
    };
    (
        MARGIN + BOX_WIDTH / 2 + x * COLUMN / 2,
        MARGIN + BOX_HEIGHT / 2 + y * ROW / 2,
    )
}

fn named(thing: &Thing) -> String {
    match thing.count {
        1 => thing.name.clone(),
        count => format!("{} × {count}", thing.name),
    }
}

/// The picture as SVG, with a title.
#[must_use]
pub fn to_svg(sketch: &Sketch, title: &str) -> String {
    let (places, columns, rows) = places(sketch);
    let turned = columns > ACROSS_MAX && columns > rows;
    let (columns, rows) = match turned {
        false => (columns, rows),
        true => (rows, columns),
    };
    let width = (2 * MARGIN + columns.max(1) * COLUMN).saturating_sub(COLUMN - BOX_WIDTH);
    let width = width.max(360);
    let below = MARGIN + BOX_HEIGHT + rows.saturating_sub(1) * ROW + MARGIN;
    let height = below + (sketch.programs.len() + 1) * LINE;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        escape(title)
    );
    for join in &sketch.joins {
        let [(x1, y1), (x2, y2)] = join.ends.map(|end| middle(places[end], turned));
        let _ = writeln!(
            out,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"#555\"/>"
        );
        if join.about.is_empty() {
            continue;
        }
        let (x, y) = ((x1 + x2) / 2, (y1 + y2) / 2);
        // Beside a line that goes down, above one that goes across.
        let (x, y, anchor) = match x1 == x2 {
            true => (x + 6, y + 4, "start"),
            false => (x, y - 6, "middle"),
        };
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"11\" fill=\"#333\" \
             paint-order=\"stroke\" stroke=\"white\" stroke-width=\"3\">{}</text>",
            escape(&join.about)
        );
    }
    for (thing, place) in sketch.things.iter().zip(&places) {
        draw_thing(&mut out, thing, middle(*place, turned));
    }
    for (number, program) in sketch.programs.iter().enumerate() {
        let y = below + number * LINE;
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"#333\">{}</text>",
            escape(program)
        );
    }
    out.push_str("</svg>\n");
    out
}

fn draw_thing(out: &mut String, thing: &Thing, (x, y): (usize, usize)) {
    let (left, top) = (x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2);
    let fill = match thing.shape {
        Shape::Host => "#e8f0fe",
        Shape::Switch => "#fef3d8",
        Shape::Ring => "#e6f4ea",
        Shape::Unit => "#f3e8fd",
        Shape::Device => "#fce8e6",
    };
    let common = format!("fill=\"{fill}\" stroke=\"#333\"");
    let _ = match thing.shape {
        Shape::Ring => writeln!(
            out,
            "<ellipse cx=\"{x}\" cy=\"{y}\" rx=\"{}\" ry=\"{}\" {common}/>",
            BOX_WIDTH / 2,
            BOX_HEIGHT / 2
        ),
        shape => {
            let round = if shape == Shape::Host { 10 } else { 0 };
            let dashes = match shape {
                Shape::Unit | Shape::Device => " stroke-dasharray=\"5 3\"",
                _ => "",
            };
            writeln!(
                out,
                "<rect x=\"{left}\" y=\"{top}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"{round}\" \
                 {common}{dashes}/>"
            )
        }
    };
    let name = format!("{} {}", thing.shape.name(), named(thing));
    for (dy, size, text) in [(-3, 13, &name), (14, 11, &thing.about)] {
        let y = y as i64 + dy;
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" font-size=\"{size}\">{}</text>",
            escape(text)
        );
    }
}

/// The picture as text: a tree from the first thing on, and what closes a circle named again.
#[must_use]
pub fn to_text(sketch: &Sketch) -> String {
    let mut tree = Tree {
        sketch,
        seen: vec![false; sketch.things.len()],
        drawn: vec![false; sketch.joins.len()],
        out: String::new(),
    };
    for thing in 0..sketch.things.len() {
        if !tree.seen[thing] {
            tree.out.push_str(&line_of(&sketch.things[thing]));
            tree.out.push('\n');
            tree.seen[thing] = true;
            tree.below(thing);
        }
    }
    if !sketch.programs.is_empty() {
        tree.out.push('\n');
    }
    for program in &sketch.programs {
        let _ = writeln!(tree.out, "{program}");
    }
    tree.out
}

fn line_of(thing: &Thing) -> String {
    let name = format!("{} {}", thing.shape.name(), named(thing));
    match thing.about.is_empty() {
        true => name,
        false => format!("{name} ({})", thing.about),
    }
}

struct Tree<'a> {
    sketch: &'a Sketch,
    seen: Vec<bool>,
    drawn: Vec<bool>,
    out: String,
}

impl Tree<'_> {
    /// All that hangs on a thing, without calling itself: a network may be a long chain.
    fn below(&mut self, root: usize) {
        // Joins that are still to be drawn, the next one last, each with what stands before it.
        let mut open: Vec<(usize, usize, String, bool)> = Vec::new();
        self.push(root, "", &mut open);
        while let Some((join, from, before, is_last)) = open.pop() {
            if std::mem::replace(&mut self.drawn[join], true) {
                continue;
            }
            let [a, b] = self.sketch.joins[join].ends;
            let to = if a == from { b } else { a };
            let about = &self.sketch.joins[join].about;
            let branch = if is_last { "└─ " } else { "├─ " };
            let _ = write!(self.out, "{before}{branch}");
            if !about.is_empty() {
                let _ = write!(self.out, "[{about}] ");
            }
            let thing = &self.sketch.things[to];
            if std::mem::replace(&mut self.seen[to], true) {
                let _ = writeln!(
                    self.out,
                    "{} {}, as above",
                    thing.shape.name(),
                    named(thing)
                );
                continue;
            }
            let _ = writeln!(self.out, "{}", line_of(thing));
            let deeper = format!("{before}{}", if is_last { "   " } else { "│  " });
            self.push(to, &deeper, &mut open);
        }
    }

    fn push(&self, from: usize, before: &str, open: &mut Vec<(usize, usize, String, bool)>) {
        let joins = self.sketch.joins.iter().enumerate();
        let own = joins.filter(|(join, it)| it.ends.contains(&from) && !self.drawn[*join]);
        for (number, (join, _)) in own.rev().enumerate() {
            open.push((join, from, before.to_owned(), number == 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use barewire_testbed::Join;

    use super::*;

    fn sample() -> Sketch {
        let thing = |name: &str, shape, count| Thing {
            name: name.to_owned(),
            shape,
            about: "like & so".to_owned(),
            count,
        };
        let join = |a, b, about: &str| Join {
            ends: [a, b],
            about: about.to_owned(),
        };
        Sketch {
            things: vec![
                thing("a", Shape::Host, 1),
                thing("b", Shape::Host, 8),
                thing("s", Shape::Switch, 1),
                thing("r", Shape::Ring, 1),
            ],
            joins: vec![
                join(0, 2, "l, 1 Gbit/s"),
                join(1, 2, "m"),
                join(2, 3, ""),
                join(0, 3, "n"),
            ],
            programs: vec!["p: ping, a to b-1".to_owned()],
        }
    }

    #[test]
    fn the_text_shows_every_thing_and_every_join_once() {
        let expected = "\
host a (like & so)
├─ [l, 1 Gbit/s] switch s (like & so)
│  ├─ [m] host b × 8 (like & so)
│  └─ ring r (like & so)
│     └─ [n] host a, as above

p: ping, a to b-1
";
        assert_eq!(to_text(&sample()), expected);
    }

    #[test]
    fn the_drawing_has_every_thing_where_no_other_is() {
        let sketch = sample();
        let (places, columns, rows) = places(&sketch);
        assert_eq!((columns, rows), (3, 2));
        for (number, place) in places.iter().enumerate() {
            assert!(!places[..number].contains(place), "{places:?}");
        }
        let svg = to_svg(&sketch, "a < b");
        assert_eq!(svg.matches("<line ").count(), 4);
        assert_eq!(svg.matches("<rect ").count(), 1 + 3);
        assert_eq!(svg.matches("<ellipse ").count(), 1);
        for text in ["host b × 8", "like &amp; so", "a &lt; b", "p: ping"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
