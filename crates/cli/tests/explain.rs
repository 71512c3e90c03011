//! `barewire explain` knows each error, state, reason and exit code, and the pages of `docs/reference` say the same.
//! After a change that is meant: `BAREWIRE_UPDATE_REFERENCE=1 cargo test -p barewire-cli --test explain`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn explain(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
        .arg("explain")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("barewire starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An entry of `explain --json`.
struct Entry(Value);

impl Entry {
    fn get(&self, field: &str) -> &str {
        let found = self.0[field].as_str();
        found.unwrap_or_else(|| panic!("no {field} in {}", self.0))
    }
}

fn entries() -> Vec<Entry> {
    let output = explain(&["--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(all.len() > 100, "{}", all.len());
    all.into_iter().map(Entry).collect()
}

/// The names of an enumeration's variants, from the source that declares it.
fn variants<'a>(source: &'a str, enumeration: &str) -> Vec<&'a str> {
    let head = format!("pub enum {enumeration} {{\n");
    let (_, body) = source.split_once(&head).expect("the enumeration");
    let (body, _) = body.split_once("\n}\n").expect("its end");
    let lines = body.lines().filter(|line| line.starts_with("    "));
    let names = lines.filter_map(|line| {
        let line = &line[4..];
        let end = line.find(|one: char| !one.is_alphanumeric())?;
        let is_name = line.starts_with(|one: char| one.is_ascii_uppercase());
        (is_name && "{(,".contains(line[end..].trim_start().chars().next()?))
            .then_some(&line[..end])
    });
    names.collect()
}

#[test]
fn each_error_is_explained() {
    let all = entries();
    let mut count = 0;
    for (of, source) in [
        (
            "barewire::Error",
            include_str!("../../barewire/src/error.rs"),
        ),
        (
            "barewire::Misconduct",
            include_str!("../../barewire/src/error.rs"),
        ),
        (
            "barewire::AccessError",
            include_str!("../../fabric/src/memory.rs"),
        ),
        ("barewire::ArmError", include_str!("../../shm/src/watch.rs")),
        (
            "barewire_sys::SysError",
            include_str!("../../sys/src/error.rs"),
        ),
        (
            "barewire_carrier::HandshakeError",
            include_str!("../../carrier/src/tls/failure.rs"),
        ),
        (
            "barewire_carrier::IdentityError",
            include_str!("../../carrier/src/tls/files.rs"),
        ),
        (
            "barewire_ofi::OfiError",
            include_str!("../../ofi/src/error.rs"),
        ),
    ] {
        let (_, enumeration) = of.rsplit_once(':').expect("a path");
        let known = all.iter().filter(|entry| entry.get("of") == of);
        let known: Vec<&str> = known.map(|entry| entry.get("code")).collect();
        let declared = variants(source, enumeration);
        assert_eq!(known, declared, "explain/errors.rs against {of}");
        count += declared.len();
    }
    assert!(count > 80, "{count}");
}

#[test]
fn each_state_and_reason_is_explained() {
    let all = entries();
    let sources = [
        (include_str!("../../sockets/src/table/state.rs"), "=> \""),
        (include_str!("../src/sockets.rs"), "why = \""),
    ];
    let mut count = 0;
    for (source, before) in sources {
        let texts = source.split(before).skip(1);
        let texts = texts.filter_map(|text| text.split('"').next());
        for said in texts.filter(|text| !text.is_empty()) {
            let is_known = all.iter().any(|entry| entry.get("code") == said);
            assert!(is_known, "explain/reasons.rs lacks «{said}»");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn an_unknown_code_is_refused_with_advice() {
    let output = explain(&["PeerDeid"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("did you mean `PeerDied`"), "{said}");
    let output = explain(&["NoSuchName"]);
    assert!(output.status.success());
    let said = text(&output.stdout);
    for part in ["what it means", "whose fault", "what to do"] {
        assert!(said.contains(part), "{said}");
    }
    let list = text(&explain(&[]).stdout);
    for entry in entries() {
        assert!(list.contains(entry.get("code")), "{}", entry.0);
    }
}

/// A cell of a table, with a link to a page as seen from `docs/reference`.
fn next_step(entry: &Entry) -> String {
    let page = entry.get("page");
    let target = match page.strip_prefix("reference/") {
        Some(sibling) => sibling.to_owned(),
        None => format!("../{page}"),
    };
    match (entry.get("next"), page) {
        (next, "") => next.to_owned(),
        ("", _) => format!("[More]({target})"),
        (next, _) => format!("{next} [More]({target})"),
    }
}

fn fault(entry: &Entry) -> &str {
    match entry.get("fault") {
        "nobody" => "nobody's",
        "caller" => "the caller's",
        "peer" => "the peer's",
        "environment" => "the machine's",
        "various" => "the message says whose",
        other => panic!("{other}"),
    }
}

/// The tables of a kind, one below a heading for each place that the codes come from.
fn tables(all: &[Entry], kind: &str, column: &str, heading: impl Fn(&str) -> String) -> String {
    let mut page = String::new();
    let mut last = "";
    for entry in all.iter().filter(|entry| entry.get("kind") == kind) {
        if entry.get("of") != last {
            last = entry.get("of");
            let _ = write!(
                page,
                "{}| {column} | what it means | whose fault | what to do |\n|---|---|---|---|\n",
                heading(last)
            );
        }
        let code = match kind {
            "error" | "state" => format!("`{}`", entry.get("code")),
            _ => entry.get("code").to_owned(),
        };
        let _ = writeln!(
            page,
            "| {code} | {} | {} | {} |",
            entry.get("means").replace('|', "\\|"),
            fault(entry),
            next_step(entry)
        );
    }
    page
}

/// What stands between the two marks of a page is `made`; or is made so if the environment asks for it.
fn check_page(name: &str, mark: &str, made: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name);
    let page = std::fs::read_to_string(&path).expect("the page");
    let begin = format!("<!-- {mark}: made of crates/cli/src/explain -->\n");
    let end = format!("<!-- end of {mark} -->\n");
    let (before, rest) = page.split_once(&begin).expect("the first mark");
    let (found, after) = rest.split_once(&end).expect("the second mark");
    let made = format!("\n{made}\n");
    if std::env::var_os("BAREWIRE_UPDATE_REFERENCE").is_some() {
        let page = format!("{before}{begin}{made}{end}{after}");
        return std::fs::write(&path, page).expect("written");
    }
    assert!(
        found == made,
        "{name} differs from `barewire explain`; if that is meant: BAREWIRE_UPDATE_REFERENCE=1 cargo test -p \
         barewire-cli --test explain"
    );
}

#[test]
fn the_pages_of_the_reference_say_the_same() {
    let all = entries();
    let below = |of: &str| format!("## `{of}`\n\n");
    let errors = tables(&all, "error", "error", |of| match of {
        "barewire::Error" => below(of),
        _ => format!("\n{}", below(of)),
    });
    check_page("errors.md", "errors", errors.trim_end());
    let none = |_: &str| String::new();
    let states = tables(&all, "state", "`state`", none);
    check_page("reasons.md", "states", states.trim_end());
    let reasons = tables(&all, "reason", "`why` says", none);
    check_page("reasons.md", "reasons", reasons.trim_end());
    let codes = tables(&all, "exit_code", "code", |of| match of {
        of if of.starts_with("barewire ") => format!("\n## {of}\n\n"),
        of => format!("## {}{}\n\n", of[..1].to_uppercase(), &of[1..]),
    });
    check_page("exit-codes.md", "exit codes", codes.trim_end());
}
