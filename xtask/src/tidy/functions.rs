//! No function is longer than 70 lines, but those listed in `xtask/ratchet/functions.toml`.

use std::collections::BTreeMap;

use super::outcome::Outcome;
use super::ratchet::{All, Found, Ratchet};
use super::tokens::{Token, tokens};
use super::tree::Tree;
use super::workspace::Workspace;

const LINES_MAX: usize = 70;
const LIST: Ratchet<'_> = Ratchet {
    path: "xtask/ratchet/functions.toml",
    what: "lines in functions of more than 70",
    remedy: "split it into functions that each do one thing",
};

pub(crate) fn check(workspace: &Workspace, tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    let mut long: BTreeMap<String, Vec<(usize, String, usize)>> = BTreeMap::new();
    let mut longest = 0;
    for krate in &workspace.crates {
        for source in tree.shipped_sources(&krate.dir) {
            for function in functions(&tokens(source.lexed)) {
                outcome.checked += 1;
                longest = longest.max(function.lines);
                if function.lines > LINES_MAX {
                    let key = format!("{}: {}", krate.dir, function.name);
                    let place = (function.lines, source.path.to_owned(), function.line + 1);
                    long.entry(key).or_default().push(place);
                }
            }
        }
    }
    let count: usize = long.values().map(Vec::len).sum();
    let mut all = All::new();
    for (key, mut places) in long {
        // Of one name in one crate: the longest first.
        places.sort_by(|a, b| b.cmp(a));
        for (i, (count, path, line)) in places.into_iter().enumerate() {
            let key = match i {
                0 => key.clone(),
                _ => format!("{key} ({})", i + 1),
            };
            let places = BTreeMap::from([(path, vec![line])]);
            all.insert(key, Found { count, places });
        }
    }
    LIST.check(tree, &all, &mut outcome);
    outcome.note = Some(format!(
        "{count} of more than {LINES_MAX} lines, the longest of {longest}"
    ));
    outcome
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// The line of its `fn`, counted from 0.
    line: usize,
    /// From its `fn` to its last brace.
    lines: usize,
}

fn functions(tokens: &[Token]) -> Vec<Function> {
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        let name = tokens.get(i + 1).filter(|name| name.is_identifier());
        let (true, Some(name)) = (token.is("fn"), name) else {
            continue;
        };
        let mut depth = 0usize;
        let mut has_body = false;
        for token in &tokens[i + 2..] {
            match token.text.as_str() {
                ";" if depth == 0 => break,
                "(" | "[" | "{" => {
                    has_body |= depth == 0 && token.is("{");
                    depth += 1;
                }
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if has_body && depth == 0 {
                found.push(Function {
                    name: name.text.clone(),
                    line: tokens[i].line,
                    lines: token.line - tokens[i].line + 1,
                });
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::lex::Lexed;
    use super::super::workspace::Crate;
    use super::*;

    #[test]
    fn functions_are_measured() {
        let text = "\
fn a(x: [u8; 2]) -> [u8; 2]
where
    A: B,
{
    fn b() {}
}
trait T {
    fn c(&self);
}
type F = fn(u8) -> u8;
#[test]
fn d() {
}
";
        let found: Vec<_> = functions(&tokens(&Lexed::new(text)))
            .into_iter()
            .map(|f| (f.name, f.line, f.lines))
            .collect();
        assert_eq!(found, [("a".into(), 0, 6), ("b".into(), 4, 1)]);
    }

    fn outcome(lines: usize, list: &str) -> Outcome {
        let text = format!("fn long() {{\n{}}}\n", "x;\n".repeat(lines - 2));
        let workspace = Workspace {
            crates: vec![Crate {
                dir: "crates/a".into(),
                ..Crate::default()
            }],
            ..Workspace::default()
        };
        let tree = Tree::of(&[("crates/a/src/lib.rs", &text), (LIST.path, list)]);
        check(&workspace, &tree)
    }

    #[test]
    fn canary_long_function() {
        assert_eq!(outcome(70, "").findings, []);
        assert_eq!(outcome(71, "").findings.len(), 1);
    }

    #[test]
    fn canary_a_listed_function_that_has_grown_or_shrunk() {
        let list = "\"crates/a: long\" = 80\n";
        assert_eq!(outcome(80, list).findings, []);
        assert_eq!(outcome(81, list).findings.len(), 1);
        let shorter = outcome(75, list);
        assert_eq!(shorter.findings.len(), 1);
        assert_eq!(shorter.rewrite.unwrap().text, "\n\"crates/a: long\" = 75\n");
        assert_eq!(outcome(70, list).findings.len(), 1);
    }
}
