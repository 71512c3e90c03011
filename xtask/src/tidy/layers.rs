//! Layers of a crate: where its root names them, lowest first, between lines of a comment
//! that say "```layers" and "```", each file imports only from its own layer or lower ones.
//!
//! A layer `name: what it is` is `src/name.rs` and all of `src/name/`; a name may also be that
//! of a folder in a folder, `name/deep`. What a line says may go on in lines that are
//! indented more. Roots of more than a few files that name none are listed in
//! `xtask/ratchet/layers.toml`.

use std::collections::BTreeSet;

use super::modules::Graph;
use super::outcome::Outcome;
use super::ratchet::{All, Ratchet};
use super::tree::Tree;

/// So many files need no layers.
const FILES_WITHOUT_MAX: usize = 5;
const LIST: Ratchet<'_> = Ratchet {
    path: "xtask/ratchet/layers.toml",
    what: "crates without layers",
    remedy: "name its layers in a comment of its root",
};

const OPENS: &str = "```layers";
const CLOSES: &str = "```";

/// A layer that a root names.
struct Layer {
    /// The line that names it, counted from 0.
    line: usize,
    name: String,
}

/// The layers that the text of a root names, lowest first; nothing if it names none. An error
/// is a line and what is wrong with it.
fn layers_of(text: &str) -> Result<Option<Vec<Layer>>, (usize, &'static str)> {
    let mut layers: Option<Vec<Layer>> = None;
    let mut margin = None;
    let mut is_open = false;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("//"));
        let Some(comment) = comment else {
            if is_open {
                return Err((i, "the block of layers is not closed"));
            }
            continue;
        };
        let word = comment.trim();
        if !is_open {
            if word == OPENS {
                if layers.is_some() {
                    return Err((i, "a second block of layers"));
                }
                is_open = true;
                layers = Some(Vec::new());
            }
            continue;
        }
        if word == CLOSES {
            is_open = false;
            continue;
        }
        let indent = comment.len() - comment.trim_start().len();
        if word.is_empty() || margin.is_some_and(|margin| indent > margin) {
            continue;
        }
        margin = Some(indent);
        let Some((name, what)) = word.split_once(':') else {
            return Err((i, "a layer is `name: what it is`"));
        };
        let name = name.trim().trim_matches('`').to_owned();
        if name.is_empty() || name.contains(char::is_whitespace) || what.trim().is_empty() {
            return Err((i, "a layer is `name: what it is`"));
        }
        if let Some(layers) = &mut layers {
            if layers.iter().any(|other| other.name == name) {
                return Err((i, "a layer is named twice"));
            }
            layers.push(Layer { line: i, name });
        }
    }
    if is_open {
        return Err((text.lines().count(), "the block of layers is not closed"));
    }
    Ok(layers)
}

/// The layer that the file at `path`, from `src/`, belongs to.
fn layer_of(layers: &[Layer], path: &str) -> Option<usize> {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let matches = layers.iter().enumerate().filter(|(_, layer)| {
        path.strip_prefix(layer.name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    matches
        .max_by_key(|(_, layer)| layer.name.len())
        .map(|(i, _)| i)
}

pub(crate) fn check(graphs: &[Graph], tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    let mut without = All::new();
    let mut with = 0;
    for graph in graphs {
        let layers = match layers_of(tree.text(&graph.root).unwrap_or_default()) {
            Ok(Some(layers)) => layers,
            Ok(None) => {
                if graph.files.len() > FILES_WITHOUT_MAX {
                    let root = without.entry(graph.root.clone()).or_default();
                    root.add(&graph.root, 1);
                }
                continue;
            }
            Err((line, why)) => {
                outcome.find(format!("{}:{}", graph.root, line + 1), why);
                continue;
            }
        };
        with += 1;
        check_graph(graph, &layers, &mut outcome);
    }
    LIST.check(tree, &without, &mut outcome);
    outcome.note = Some(format!(
        "{with} crates name their layers, {} do not",
        without.len()
    ));
    if outcome.checked == 0 {
        outcome.skipped = Some("no crate names its layers yet");
    }
    outcome
}

fn check_graph(graph: &Graph, layers: &[Layer], outcome: &mut Outcome) {
    let folder = graph.root.rsplit_once('/').map_or("", |(folder, _)| folder);
    let from_src = |file: &str| {
        file.strip_prefix(folder)
            .map_or(file, |rest| rest.trim_start_matches('/'))
            .to_owned()
    };
    let mut used = BTreeSet::new();
    for file in graph.files.iter().filter(|&file| *file != graph.root) {
        outcome.checked += 1;
        match layer_of(layers, &from_src(file)) {
            Some(layer) => {
                used.insert(layer);
            }
            None => outcome.find(file, "belongs to no layer that the root of its crate names"),
        }
    }
    for (i, Layer { line, name }) in layers.iter().enumerate() {
        if !used.contains(&i) {
            outcome.find(
                format!("{}:{}", graph.root, line + 1),
                format!("layer {name} has no file"),
            );
        }
    }
    for import in &graph.imports {
        let Some(from) = layer_of(layers, &from_src(&import.from)) else {
            continue;
        };
        let place = format!("{}:{}", import.from, import.line);
        if import.to == graph.root {
            outcome.find(
                place,
                "imports from the root of its crate, above all layers",
            );
            continue;
        }
        if let Some(to) = layer_of(layers, &from_src(&import.to)) {
            if to > from {
                outcome.find(
                    place,
                    format!(
                        "layer {} imports {}, of the higher layer {}",
                        layers[from].name, import.to, layers[to].name
                    ),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "crates/a/src/lib.rs";

    fn outcome(root: &str, files: &[(&str, &str)]) -> Outcome {
        let paths: Vec<String> = files
            .iter()
            .map(|(path, _)| format!("crates/a/src/{path}"))
            .collect();
        let mut all: Vec<(&str, &str)> = paths
            .iter()
            .zip(files)
            .map(|(path, &(_, text))| (path.as_str(), text))
            .collect();
        all.push((ROOT, root));
        let tree = Tree::of(&all);
        check(&[Graph::of(&tree, ROOT)], &tree)
    }

    fn places(outcome: &Outcome) -> Vec<&str> {
        outcome
            .findings
            .iter()
            .map(|finding| finding.place.trim_start_matches("crates/a/src/"))
            .collect()
    }

    const BLOCK: &str = "\
//! A crate.
//!
//! ```layers
//! low: what all need,
//!     and more: of it
//! high: what programs see
//! ```
mod high;
mod low;
fn f() { high::f(); low::f(); }
";

    #[test]
    fn downwards_and_sideways_is_fine() {
        let outcome = outcome(
            BLOCK,
            &[
                ("low.rs", "mod a;\nmod b;\n"),
                ("low/a.rs", "use super::b;\n"),
                ("low/b.rs", ""),
                ("high.rs", "use crate::low::a;\n"),
            ],
        );
        assert_eq!(outcome.findings, []);
        assert_eq!(outcome.checked, 4);
        let note = outcome.note.unwrap();
        assert_eq!(note, "1 crates name their layers, 0 do not");
    }

    #[test]
    fn canary_upwards() {
        let outcome = outcome(
            BLOCK,
            &[
                ("low.rs", "mod a;\nuse crate::f;\n"),
                ("low/a.rs", "\nfn f() { crate::high::f(); }\n"),
                ("high.rs", ""),
            ],
        );
        assert_eq!(places(&outcome), ["low.rs:2", "low/a.rs:2"]);
    }

    #[test]
    fn canary_a_file_of_no_layer_and_a_layer_of_no_file() {
        let root = BLOCK.replace("mod low;", "mod lower;");
        let outcome = outcome(&root, &[("lower.rs", ""), ("high.rs", "")]);
        assert_eq!(places(&outcome), ["lower.rs", "lib.rs:4"]);
    }

    #[test]
    fn a_layer_may_be_a_folder_in_a_folder() {
        let root =
            "// ```layers\n// low/deep: a\n// high: b\n// low: c\n// ```\nmod low;\nmod high;\n";
        let outcome = outcome(
            root,
            &[
                ("low.rs", "mod deep;\nuse crate::high;\n"),
                ("low/deep.rs", "use crate::high;\n"),
                ("high.rs", ""),
            ],
        );
        assert_eq!(places(&outcome), ["low/deep.rs:1"]);
    }

    #[test]
    fn canary_blocks_that_cannot_be_read() {
        for block in [
            "//! ```layers\n//! low: a\nmod low;\n",
            "//! ```layers\n//! low\n//! ```\nmod low;\n",
            "//! ```layers\n//! low: a\n//! low: b\n//! ```\nmod low;\n",
            "//! ```layers\n//! low: a\n//! ```\n//! ```layers\n//! ```\nmod low;\n",
            "//! ```layers\n//! low: a",
        ] {
            assert_eq!(
                outcome(block, &[("low.rs", "")]).findings.len(),
                1,
                "{block}"
            );
        }
    }

    #[test]
    fn canary_many_files_without_a_block() {
        let root = "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\n";
        let files = ["a.rs", "b.rs", "c.rs", "d.rs", "e.rs"].map(|file| (file, ""));
        let many = outcome(root, &files);
        assert_eq!(places(&many), ["lib.rs"]);
        assert_eq!(many.note.unwrap(), "0 crates name their layers, 1 do not");
        // With one file less nobody asks.
        let few = outcome(root, &files[1..]);
        assert_eq!((few.findings.len(), few.checked), (0, 0));
        assert!(few.skipped.is_some());
    }
}
