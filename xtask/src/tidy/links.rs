//! Relative links in Markdown point to files that are there.

use super::outcome::Outcome;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut fence: Option<&str> = None;
        for (i, line) in text.lines().enumerate() {
            let start = line.trim_start();
            let ticks = &start[..start.len() - start.trim_start_matches('`').len()];
            if ticks.len() >= 3 {
                match fence {
                    None => fence = Some(ticks),
                    Some(open) if ticks.len() >= open.len() => fence = None,
                    Some(_) => {}
                }
                continue;
            }
            if fence.is_some() {
                continue;
            }
            for target in targets(line) {
                let Some(relative) = relative(target) else {
                    continue;
                };
                outcome.checked += 1;
                if !resolve(folder, relative).is_some_and(|path| tree.holds(&path)) {
                    outcome.find(
                        format!("{path}:{}", i + 1),
                        format!("links to {relative}, which is not there"),
                    );
                }
            }
        }
    }
    outcome
}

/// The targets of the links on a line: `[x](target)` and `[x]: target`, not
/// those quoted as code.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let definition = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]:"))
        .filter(|(label, _)| !label.contains(']') && !label.starts_with('^'));
    if let Some((_, target)) = definition {
        found.extend(target.split_whitespace().next());
    }
    for (n, text) in line.split('`').enumerate() {
        if n % 2 == 1 {
            continue;
        }
        for (at, _) in text.match_indices("](") {
            let rest = &text[at + 2..];
            if let Some(end) = rest.find(')') {
                found.extend(rest[..end].split_whitespace().next());
            }
        }
    }
    // `[`code`](target)` is split by its own quotes: its target stands after them.
    found
}

/// The path of a link to a file of the project.
fn relative(target: &str) -> Option<&str> {
    let target = target.trim_start_matches('<').trim_end_matches('>');
    let path = target.split('#').next().unwrap_or(target);
    let elsewhere = path.contains("://") || path.starts_with("mailto:");
    (!elsewhere && !path.is_empty()).then_some(path)
}

/// `target` as seen from `folder`, as a path from the root; none if it leaves it.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed() {
        let text = "\
[a](b.md) and ![c](../x.png \"title\") and [`d`](b.md#part)
[web](https://example.org/x) [here](#part) [mail](mailto:a@b.c)
`[quoted](no.md)`
```text
[fenced](no.md)
```
[folder](../docs/)
[ref]: ./b.md
";
        let tree = Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("x.png", "")]);
        let outcome = check(&tree);
        assert_eq!(outcome.findings, []);
        assert_eq!(outcome.checked, 5);
    }

    #[test]
    fn canaries() {
        for bad in [
            "[a](no.md)",
            "[a](../../b.md)",
            "[a](/docs/b.md)",
            "[`a`](no.md)",
            "[a]: no.md",
            "[ok](b.md) [a](no.md#x)",
        ] {
            let tree = Tree::of(&[("docs/a.md", bad), ("docs/b.md", "")]);
            assert_eq!(check(&tree).findings.len(), 1, "{bad}");
        }
    }
}
