//! Cells in columns for a terminal, and standard output.

use std::io;

/// What was to be shown could not be written.
#[derive(Debug, thiserror::Error)]
#[error("writing the result: {0}")]
pub struct PrintError(#[from] io::Error);

/// Lines of cells in columns: text to the left, numbers to the right.
pub fn in_columns(lines: &[Vec<String>], text_columns: &[usize], indent: &str) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let mut row = String::from(indent);
        for (column, cell) in line.iter().enumerate() {
            if column > 0 {
                row.push_str("  ");
            }
            let width = widths[column];
            row += &match text_columns.contains(&column) {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            };
        }
        out += row.trim_end();
        out.push('\n');
    }
    out
}

/// With what a command ends whose output nobody reads any more: what a shell says of a program that SIGPIPE has
/// ended.
pub const NOBODY_READS: i32 = 128 + 13;

/// Writes to standard output. If its reader has closed the pipe, the process ends.
///
/// # Errors
/// Standard output takes no more.
pub fn print(text: &str) -> Result<(), PrintError> {
    use std::io::Write;
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(NOBODY_READS),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let line = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        let text = in_columns(&[line("name", "n"), line("x", "12")], &[0], " ");
        assert_eq!(text, " name   n\n x     12\n");
    }
}
