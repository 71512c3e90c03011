//! Manual pages and completions: for every command, the same bytes each time, and accepted by those who read them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn barewire(arguments: &[&str], epoch: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.env_remove("SOURCE_DATE_EPOCH").args(arguments);
    if let Some(epoch) = epoch {
        command.env("SOURCE_DATE_EPOCH", epoch);
    }
    let output = command.stdin(Stdio::null()).output();
    output.expect("barewire starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("barewire-{name}-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    /// The pages that `man --dir` writes.
    fn pages(&self, epoch: Option<&str>) -> BTreeMap<String, String> {
        let output = barewire(&["man", "--dir", self.0.to_str().expect("text")], epoch);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let files = std::fs::read_dir(&self.0).expect("the folder").flatten();
        let page = |file: std::fs::DirEntry| {
            let name = file.file_name().into_string().expect("text");
            (name, std::fs::read_to_string(file.path()).expect("a page"))
        };
        files.map(page).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn each_command_has_a_page() {
    let folder = Folder::new("pages");
    let pages = folder.pages(None);
    let help = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let help = std::fs::read_dir(help).expect("the help").flatten();
    let mut expected: Vec<String> = help
        .map(|file| file.file_name().into_string().expect("text"))
        .map(|name| name.replace(".txt", ".1"))
        .collect();
    expected.sort_unstable();
    assert!(expected.len() > 40, "{expected:?}");
    assert_eq!(
        pages.keys().collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
    for (name, page) in &pages {
        let command = name.trim_end_matches(".1");
        assert!(page.contains(&format!(".TH {command} 1")), "{name}: {page}");
        assert!(
            page.contains(".SH NAME\n") && page.contains(".SH SYNOPSIS\n"),
            "{name}"
        );
    }
    let page = &pages["barewire-ls.1"];
    assert!(
        page.contains("\\-\\-watch") && page.contains("Examples"),
        "{page}"
    );
    // The same page by itself.
    let alone = barewire(&["man", "ls"], None);
    assert_eq!(&text(&alone.stdout), page);
}

#[test]
fn pages_have_the_date_of_the_source_and_nothing_else_that_changes() {
    let (one, other) = (Folder::new("dated"), Folder::new("dated-again"));
    let epoch = Some("1000000000");
    let pages = one.pages(epoch);
    assert_eq!(pages, other.pages(epoch));
    let first = &pages["barewire.1"];
    assert!(first.contains("2001-09-09"), "{first}");
    for wrong in ["", "yesterday", "-1", "18446744073709551615"] {
        let output = barewire(&["man"], Some(wrong));
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(
            text(&output.stderr).contains("SOURCE_DATE_EPOCH"),
            "{wrong}"
        );
    }
    let output = barewire(&["man", "nonsense"], None);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no command `barewire nonsense`"));
}

/// Has a shell read a text; none if there is no such shell here.
fn accepted(shell: &str, arguments: &[&str], script: &[u8]) -> Option<Output> {
    let child = Command::new(shell)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.ok()?;
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(script)
        .expect("it reads");
    Some(child.wait_with_output().expect("it ends"))
}

fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        log.expect("the log")
            .write_all(line.as_bytes())
            .expect("written");
    }
}

#[test]
fn shells_accept_their_completions() {
    for (shell, arguments) in [
        ("bash", &["-n"][..]),
        ("zsh", &["-n"]),
        ("fish", &["-n", "/dev/stdin"]),
    ] {
        let output = barewire(&["completions", shell], None);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("keygen"), "{shell}");
        match accepted(shell, arguments, &output.stdout) {
            Some(read) => assert!(read.status.success(), "{shell}: {}", text(&read.stderr)),
            None => skip(
                "shells_accept_their_completions",
                &format!("{shell} is not installed"),
            ),
        }
    }
    // And what it completes.
    let output = barewire(&["completions", "bash"], None);
    let asked = "COMP_WORDS=(barewire expl); COMP_CWORD=1; _barewire barewire expl barewire; echo \"${COMPREPLY[@]}\"\n";
    let script = [&output.stdout[..], asked.as_bytes()].concat();
    if let Some(read) = accepted("bash", &[], &script) {
        assert_eq!(text(&read.stdout), "explain\n", "{}", text(&read.stderr));
    }
    let output = barewire(&["completions", "fish"], None);
    let asked = "source -; complete --do-complete 'barewire expl'";
    if let Some(read) = accepted("fish", &["--no-config", "-c", asked], &output.stdout) {
        let completed = text(&read.stdout);
        assert!(completed.starts_with("explain\t"), "{completed}");
        assert_eq!(completed.lines().count(), 1, "{completed}");
    }
    let output = barewire(&["completions", "zsh"], None);
    let script = [
        b"autoload -Uz compinit; compinit -u -D\n",
        &output.stdout[..],
        b"\nprint $_comps[barewire]\n",
    ]
    .concat();
    if let Some(read) = accepted("zsh", &["-f"], &script) {
        assert_eq!(text(&read.stdout), "_barewire\n", "{}", text(&read.stderr));
    }
    let output = barewire(&["completions", "tcsh"], None);
    assert_eq!(output.status.code(), Some(2));
}
