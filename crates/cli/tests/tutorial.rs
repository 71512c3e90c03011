//! The tutorial, done from its first step to its last: every command of its blocks `console`
//! runs, in one folder, and prints every line that is shown below it, in that order. A line
//! `...` stands for any. A block `toml` whose first line is `# NAME.toml` is a file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TUTORIAL: &str = include_str!("../../../docs/tutorial.md");
/// What a command prints that is to fail.
const REFUSED: &str = "barewire: ";

/// A command, and the lines that are shown of what it prints.
struct Shown<'a> {
    command: &'a str,
    lines: Vec<&'a str>,
}

/// What a block of the tutorial asks for.
enum Block<'a> {
    File(&'a str, String),
    Commands(Vec<Shown<'a>>),
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match kind {
            "console" => blocks.push(Block::Commands(commands(&inside))),
            "toml" => blocks.extend(file(&inside)),
            _ => {}
        }
    }
    blocks
}

fn commands<'a>(lines: &[&'a str]) -> Vec<Shown<'a>> {
    let mut commands: Vec<Shown<'a>> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push(Shown {
                command,
                lines: Vec::new(),
            }),
            (None, Some(last)) => last.lines.push(line),
            (None, None) => panic!("`{line}` stands above the first command"),
        }
    }
    commands
}

fn file<'a>(lines: &[&'a str]) -> Option<Block<'a>> {
    let name = lines.first()?.strip_prefix("# ")?;
    let name = name.split([':', ' ']).next()?;
    let is_file = name.ends_with(".toml");
    is_file.then(|| Block::File(name, lines.join("\n") + "\n"))
}

/// Where the tutorial is done; goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tutorial");
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// Whether a command of a shell went well, and all that it printed.
    fn sh(&self, command: &str) -> (bool, String) {
        let program = Path::new(env!("CARGO_BIN_EXE_barewire"));
        let folder = program.parent().expect("a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(&self.0)
            .env("PATH", format!("{}:{path}", folder.display()))
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text)
    }

    fn follow(&self, shown: &Shown<'_>) {
        // Takes ten seconds, and its figures are others on each machine: the built-in host takes
        // the place of the measured one.
        let command = match shown.command.contains(" lab calibrate ") {
            true => "barewire lab show modern-pc > host.toml",
            false => shown.command,
        };
        let (went_well, printed) = self.sh(command);
        let should_fail = shown.lines.iter().any(|line| line.starts_with(REFUSED));
        assert_eq!(went_well, !should_fail, "$ {command}\n{printed}");
        let mut rest = printed.lines();
        for line in shown.lines.iter().filter(|line| **line != "...") {
            assert!(
                rest.any(|printed| printed.trim_end() == line.trim_end()),
                "$ {command}\nprinted:\n{printed}\nand not, or not in this order:\n{line}"
            );
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_command_does_what_the_tutorial_shows() {
    let folder = Folder::new();
    let mut followed = 0;
    for block in blocks(TUTORIAL) {
        match block {
            Block::File(name, text) => {
                std::fs::write(folder.0.join(name), text).expect("written");
            }
            Block::Commands(commands) => {
                for shown in &commands {
                    folder.follow(shown);
                }
                followed += commands.len();
            }
        }
    }
    assert!(followed >= 10, "only {followed} commands were found");
}

#[test]
fn what_is_not_printed_is_noticed() {
    let folder = Folder(Path::new(env!("CARGO_TARGET_TMPDIR")).join("tutorial-noticed"));
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let follow = |text: &str| {
        let blocks = blocks(text);
        let Some(Block::Commands(commands)) = blocks.first() else {
            panic!("a block of commands");
        };
        let each = || commands.iter().for_each(|shown| folder.follow(shown));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(each)).is_ok()
    };
    assert!(follow(
        "```console\n$ printf 'a\\nb\\nc\\n'\na\n...\nc\n```\n"
    ));
    assert!(!follow("```console\n$ printf 'a\\nb\\n'\nb\na\n```\n"));
    assert!(!follow("```console\n$ printf 'a\\n'; false\na\n```\n"));
    assert!(!follow(
        "```console\n$ echo 'barewire: no'\nbarewire: no\n```\n"
    ));
}
