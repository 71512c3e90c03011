//! `barewire explain CODE`: what an error, a state, a reason or an exit code means, whose fault it is, and what to
//! do next. Pages of `docs/reference` are made of the same tables.

mod entry;
mod errors;
mod exit_codes;
mod reasons;

use std::fmt::Write as _;

use barewire_report::columns::{PrintError, in_columns, print};
use clap::Args;
use serde::Serialize;

use entry::{Entry, Fault, Group, Kind};

/// Say what an error, a state, a reason or an exit code means, and what to do next
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire explain                   list all codes
  barewire explain NameTaken         an error, by its name in Rust
  barewire explain 125               an exit code
  barewire explain no shared memory  a reason of `barewire ls`
  barewire explain --json | jq '.[] | select(.kind == \"reason\").code'
A line of `run --why` can be given as it stands.")]
pub struct ExplainArgs {
    /// The code, or a text that has one in it; without it all codes are listed
    #[arg(value_name = "CODE")]
    pub code: Vec<String>,
    /// Print JSON: an array of entries
    #[arg(long)]
    pub json: bool,
}

/// Why nothing was explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// There is no such code.
    #[error("nothing is known about `{code}`{advice}; `barewire explain` lists all codes")]
    Unknown {
        /// What was asked for.
        code: String,
        /// Codes that are similar.
        advice: String,
    },
    /// It could not be written.
    #[error(transparent)]
    Print(#[from] PrintError),
    /// It could not be made into JSON.
    #[error("writing the result: {0}")]
    Json(#[from] serde_json::Error),
}

/// An entry, with what its group says.
#[derive(Clone, Copy, Debug, Serialize)]
struct Explained {
    kind: Kind,
    of: &'static str,
    code: &'static str,
    means: &'static str,
    fault: Fault,
    next: &'static str,
    page: &'static str,
}

/// The shortest code that is looked for within a longer text.
const WITHIN_LEAST: usize = 10;
/// How similar a suggestion must be, of 1.
const SIMILAR_LEAST: f64 = 0.75;
const SUGGESTIONS: usize = 3;

/// Explains one code, or lists them all.
///
/// # Errors
/// There is no such code, or standard output takes no more.
pub fn run(args: &ExplainArgs) -> Result<(), ExplainError> {
    let all = all();
    let asked = args.code.join(" ");
    let is_list = args.code.is_empty();
    let found = match is_list {
        true => all,
        false => find(&all, &asked).ok_or_else(|| ExplainError::Unknown {
            advice: advice(&all, &asked),
            code: asked,
        })?,
    };
    let text = match (args.json, is_list) {
        (true, _) => serde_json::to_string_pretty(&found)? + "\n",
        (false, true) => list(&found),
        (false, false) => {
            let texts: Vec<String> = found.iter().map(text).collect();
            texts.join("\n")
        }
    };
    Ok(print(&text)?)
}

fn all() -> Vec<Explained> {
    let groups = [errors::GROUPS, reasons::GROUPS, exit_codes::GROUPS];
    let of_group = |group: &'static Group| {
        group.entries.iter().map(|entry: &Entry| Explained {
            kind: group.kind,
            of: group.of,
            code: entry.code,
            means: entry.means,
            fault: entry.fault,
            next: entry.next,
            page: entry.page,
        })
    };
    groups.into_iter().flatten().flat_map(of_group).collect()
}

/// Letters and digits only, so that neither case nor punctuation matters.
fn plain(text: &str) -> String {
    let kept = text.chars().filter(|one| one.is_alphanumeric());
    kept.flat_map(char::to_lowercase).collect()
}

/// Those with this code; or whose code is the first word, as in `NameTaken { name: ... }`; or whose code stands in
/// the text, as in a line of `--why`. `None` if there are none.
fn find(all: &[Explained], asked: &str) -> Option<Vec<Explained>> {
    let first = asked.split(|one: char| !one.is_alphanumeric()).next();
    let within = |wanted: &str, code: &str| code.len() >= WITHIN_LEAST && wanted.contains(code);
    let matching = |is_it: &dyn Fn(&str) -> bool| {
        let found = all.iter().filter(|entry| is_it(&plain(entry.code)));
        let found: Vec<Explained> = found.copied().collect();
        (!found.is_empty()).then_some(found)
    };
    let (asked, first) = (plain(asked), plain(first.unwrap_or_default()));
    matching(&|code| code == asked)
        .or_else(|| matching(&|code| within(&asked, code)))
        .or_else(|| matching(&|code| code == first))
}

/// Codes that are similar, as the end of a sentence.
fn advice(all: &[Explained], asked: &str) -> String {
    let asked = plain(asked);
    let similar = |entry: &Explained| strsim::jaro_winkler(&plain(entry.code), &asked);
    let mut near: Vec<(f64, &str)> = all.iter().map(|it| (similar(it), it.code)).collect();
    near.retain(|(similarity, _)| *similarity >= SIMILAR_LEAST);
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    near.dedup_by_key(|(_, code)| *code);
    let names: Vec<String> = near.iter().map(|(_, code)| format!("`{code}`")).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "; did you mean {}",
            names[..names.len().min(SUGGESTIONS)].join(" or ")
        ),
    }
}

fn list(all: &[Explained]) -> String {
    let mut text = String::new();
    let mut rest = all;
    while let Some(first) = rest.first() {
        let is_same = |it: &&Explained| (it.kind, it.of) == (first.kind, first.of);
        let (group, others) = rest.split_at(rest.iter().take_while(is_same).count());
        let lines: Vec<Vec<String>> = group
            .iter()
            .map(|it| vec![it.code.to_owned(), first_sentence(it.means).to_owned()])
            .collect();
        let _ = writeln!(text, "{}s of {}", first.kind.name(), first.of);
        text += &in_columns(&lines, &[0, 1], "  ");
        text.push('\n');
        rest = others;
    }
    text + "`barewire explain CODE` says more about one of them.\n"
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ")
        .next()
        .unwrap_or(text)
        .trim_end_matches(['.', ' '])
}

/// As many words a line as a terminal has room for.
const WIDTH: usize = 90;

fn text(entry: &Explained) -> String {
    let mut text = format!("{} ({} of {})\n", entry.code, entry.kind.name(), entry.of);
    let page = match entry.page {
        "" => String::new(),
        page => format!("docs/{page}"),
    };
    let parts = [
        ("what it means", entry.means),
        ("whose fault", entry.fault.sentence()),
        ("what to do", entry.next),
        ("more", &page),
    ];
    for (name, said) in parts.iter().filter(|(_, said)| !said.is_empty()) {
        let _ = write!(text, "  {name:<14}");
        let mut column = 16;
        for word in said.split(' ') {
            if column > 16 && column + word.chars().count() > WIDTH {
                text += "\n                ";
                column = 16;
            }
            let space = if column == 16 { "" } else { " " };
            let _ = write!(text, "{space}{word}");
            column += space.len() + word.chars().count();
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(asked: &str) -> Vec<(Kind, &'static str)> {
        let found = find(&all(), asked).unwrap_or_default();
        found.iter().map(|it| (it.kind, it.code)).collect()
    }

    #[test]
    fn codes_are_found_as_people_write_them() {
        for asked in ["NameTaken", "name-taken", "NameTaken { name: \"x\" }"] {
            assert_eq!(codes(asked), [(Kind::Error, "NameTaken")], "{asked}");
        }
        let why = "barewire: pid 71 fd 6 127.0.0.1:1 - 127.0.0.1:2: accelerated, then kernel, no shared memory";
        let found = codes(why);
        assert!(
            found.contains(&(Kind::Reason, "no shared memory")),
            "{found:?}"
        );
        assert_eq!(codes("127"), [(Kind::ExitCode, "127")]);
        assert_eq!(codes("OutOfRange").len(), 2);
        assert!(codes("nonsense").is_empty() && codes("").is_empty());
    }

    #[test]
    fn what_is_mistyped_is_suggested() {
        let said = advice(&all(), "NameTakn");
        assert!(said.starts_with("; did you mean `NameTaken`"), "{said}");
        assert_eq!(advice(&all(), "xyzzy"), "");
    }

    #[test]
    fn every_entry_says_something() {
        let mut seen = Vec::new();
        for entry in all() {
            assert!(entry.means.ends_with('.'), "{entry:?}");
            assert!(
                entry.next.is_empty() || entry.next.ends_with(['.', ')']),
                "{entry:?}"
            );
            let key = (entry.kind, entry.of, plain(entry.code));
            assert!(!seen.contains(&key), "twice: {entry:?}");
            seen.push(key);
        }
    }
}
