//! Rows in columns for a terminal, with headings over as many lines as it takes to fit there.

use std::fmt::Write;

/// What a terminal is expected to show in a line.
const WIDTH: usize = 120;
/// Lines of a heading at most. A table that is too wide even so stays that wide.
const HEADING_LINES_MAX: usize = 4;
/// In front of each column.
const GAP: usize = 2;

/// A column: what stands above it, and whether it is of names, which go to the left.
pub(crate) struct Head {
    /// What stands above it.
    pub heading: String,
    /// Names go to the left, numbers to the right.
    pub is_of_names: bool,
}

/// The columns with their heads above the rows.
pub(crate) fn grid(heads: &[Head], rows: &[Vec<String>]) -> String {
    let widths = widths(heads, rows);
    let wrapped: Vec<Vec<String>> = heads
        .iter()
        .zip(&widths)
        .map(|(head, width)| wrap(&head.heading, *width))
        .collect();
    let lines = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = String::new();
    for line in 0..lines {
        // Short headings stand on the last line, beside the end of the long ones.
        let part = |heading: &Vec<String>| {
            let at = (line + heading.len()).checked_sub(lines);
            at.map_or_else(String::new, |at| heading[at].clone())
        };
        let cells: Vec<String> = wrapped.iter().map(part).collect();
        put(&mut out, heads, &widths, &cells);
    }
    for row in rows {
        put(&mut out, heads, &widths, row);
    }
    out
}

fn put(out: &mut String, heads: &[Head], widths: &[usize], cells: &[String]) {
    let mut line = String::new();
    for ((head, width), cell) in heads.iter().zip(widths).zip(cells) {
        let _ = match head.is_of_names {
            true => write!(line, "{:GAP$}{cell:<width$}", ""),
            false => write!(line, "{:GAP$}{cell:>width$}", ""),
        };
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

/// As wide as cells and headings ask for, these over as few lines as fit.
fn widths(heads: &[Head], rows: &[Vec<String>]) -> Vec<usize> {
    let of_cells = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let with_headings_of = |lines: usize| -> Vec<usize> {
        heads
            .iter()
            .enumerate()
            .map(|(column, head)| of_cells(column).max(width_in(&head.heading, lines)))
            .collect()
    };
    let fits = |widths: &Vec<usize>| widths.iter().map(|width| width + GAP).sum::<usize>() <= WIDTH;
    (1..=HEADING_LINES_MAX)
        .map(with_headings_of)
        .find(fits)
        .unwrap_or_else(|| with_headings_of(HEADING_LINES_MAX))
}

/// The least width in which a text takes no more than so many lines.
fn width_in(text: &str, lines: usize) -> usize {
    let all = text.chars().count();
    (0..all)
        .find(|width| {
            let parts = wrap(text, *width);
            parts.len() <= lines && parts.iter().all(|part| part.chars().count() <= *width)
        })
        .unwrap_or(all)
}

/// Breaks a text between words. A word that is too long has a line of its own.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(headings: &[&str]) -> Vec<Head> {
        let head = |(at, heading): (usize, &&str)| Head {
            heading: (*heading).to_owned(),
            is_of_names: at == 0,
        };
        headings.iter().enumerate().map(head).collect()
    }

    #[test]
    fn what_fits_has_a_heading_of_one_line() {
        let rows = [["a", "1"], ["long name", "2.5"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            grid(&heads(&["what", "time, us"]), &rows),
            "  what       time, us
  a                 1
  long name       2.5
"
        );
        assert_eq!(grid(&heads(&["what"]), &[]), "  what\n");
    }

    #[test]
    fn long_headings_take_as_few_lines_as_fit() {
        let long = "a name of twenty µs, and more";
        for (columns, lines) in [(3, 1), (5, 2), (8, 3), (11, 4)] {
            let mut headings = vec!["what"];
            headings.resize(columns, long);
            let row = vec!["7".to_owned(); columns];
            let text = grid(&heads(&headings), &[row]);
            assert_eq!(text.lines().count(), lines + 1, "{text}");
            let widths = text.lines().map(|line| line.chars().count());
            assert!(widths.max() <= Some(WIDTH), "{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            let all = 1 + (columns - 1) * long.split(' ').count() + columns;
            assert_eq!(words.len(), all, "{text}");
            // The short heading stands on the last line of them.
            let last = text.lines().nth(lines - 1).expect("a heading");
            assert!(last.starts_with("  what  "), "{text}");
        }
    }

    #[test]
    fn what_never_fits_is_shown_whole() {
        let names = vec!["x".repeat(WIDTH), "y".repeat(WIDTH)];
        let text = grid(&heads(&["one two", "three"]), std::slice::from_ref(&names));
        assert!(
            text.contains(&names[0]) && text.contains(&names[1]),
            "{text}"
        );
    }
}
