//! That the committed header and the list of symbols are what the sources say.

use std::fs;
use std::path::{Path, PathBuf};

const RENEW: &str = "BAREWIRE_UPDATE_HEADER=1 cargo test -p barewire-capi --test header";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The header as the sources say, in the order of reading.
fn generated() -> String {
    let mut config =
        cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("cbindgen.toml");
    config.export.rename = names(&sources());
    let mut builder = cbindgen::Builder::new().with_config(config);
    for (path, _) in sources() {
        builder = builder.with_src(path);
    }
    let mut header = Vec::new();
    builder
        .generate()
        .expect("the sources are understood")
        .write(&mut header);
    let header = String::from_utf8(header).expect("text");
    plain(&header)
}

/// The sources, in the order in which the header is to be read.
fn sources() -> Vec<(PathBuf, String)> {
    let files = [
        "border",
        "settings",
        "failure",
        "kinds",
        "peers",
        "messages",
        "events",
        "nodes",
        "connection",
        "halves",
        "streams",
        "apertures",
    ];
    let read = |file: &str| {
        let path = root().join("src").join(file).with_extension("rs");
        let text = fs::read_to_string(&path).expect("a source");
        (path, text)
    };
    files.into_iter().map(read).collect()
}

/// How C calls the types: `BwNodeConfig` is `bw_node_config`.
fn names(sources: &[(PathBuf, String)]) -> std::collections::HashMap<String, String> {
    let mut names = std::collections::HashMap::new();
    for (_, text) in sources {
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            if !word.starts_with("Bw") {
                continue;
            }
            let mut name = String::new();
            for (nth, letter) in word.char_indices() {
                if letter.is_uppercase() && nth > 0 {
                    name.push('_');
                }
                name.extend(letter.to_lowercase());
            }
            names.insert(word.to_owned(), name);
        }
    }
    names
}

/// Without what only readers of the source need: that one thread at a time uses a handle is said once, at the top.
fn plain(header: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut skipping = false;
    for line in header.lines() {
        let comment = line.trim_start().strip_prefix("//");
        if comment.is_some_and(|text| text.trim() == "# Safety") {
            skipping = true;
            // The empty line before it.
            lines.pop();
        }
        skipping &= comment.is_some();
        if !skipping {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}

/// The functions that a header declares.
fn functions(header: &str) -> Vec<String> {
    let mut names: Vec<String> = header
        .split('(')
        .filter_map(|before| before.rsplit([' ', '*', '\n']).next())
        .filter(|name| name.starts_with("bw_"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The list of symbols for the linker.
fn symbols(header: &str) -> String {
    let mut map = String::from(
        "/* The symbols of libbarewire.so, by the version in which they came. Nothing else is exported. */\n\
         BAREWIRE_0.1 {\nglobal:\n",
    );
    for name in functions(header) {
        map += &format!("    {name};\n");
    }
    map + "local:\n    *;\n};\n"
}

fn compare(path: &Path, expected: &str) {
    if std::env::var_os("BAREWIRE_UPDATE_HEADER").is_some() {
        fs::write(path, expected).expect("written");
        return;
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is out of date. Renew it with\n    {RENEW}\nand look at the difference.",
        path.display()
    );
}

#[test]
fn the_header_is_what_the_sources_say() {
    compare(&root().join("include/barewire.h"), &generated());
}

#[test]
fn the_symbols_are_the_functions_of_the_header() {
    let header = generated();
    assert!(functions(&header).len() > 100, "{:?}", functions(&header));
    compare(&root().join("barewire.map"), &symbols(&header));
}

/// A header that lacks a function gives another list.
#[test]
fn a_function_that_is_missing_is_noticed() {
    let header = generated();
    let lacking = header.replace("bw_node_clone(", "somebody_else(");
    assert_ne!(symbols(&header), symbols(&lacking));
}

/// Each function of the sources is exported, and has a comment in the header.
#[test]
fn every_function_is_in_the_header_and_explained() {
    let header = generated();
    let exported = functions(&header);
    for (path, text) in sources() {
        for part in text.split("extern \"C\" fn ").skip(1) {
            let name = part.split('(').next().expect("a name");
            assert!(
                exported.iter().any(|known| known == name),
                "{name} of {}",
                path.display()
            );
            let lines: Vec<&str> = header.lines().collect();
            let declares = |line: &&str| {
                line.contains(&format!("{name}(")) && !line.trim_start().starts_with(['/', '*'])
            };
            let at = lines.iter().position(declares).expect("declared");
            assert_eq!(
                lines.iter().filter(|line| declares(line)).count(),
                1,
                "{name}"
            );
            assert!(lines[at - 1].starts_with("// "), "{name} has no comment");
        }
    }
}
