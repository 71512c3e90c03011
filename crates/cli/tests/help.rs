//! What the command says of itself: examples that are true, and no advice to use what is of
//! no use by hand.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn barewire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("barewire starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The help of each has examples, and every option in them is one of that command.
#[test]
fn the_help_has_examples_with_options_that_exist() {
    for command in [
        vec!["run"],
        vec!["ls"],
        vec!["stat"],
        vec!["dump"],
        vec!["set"],
        vec!["explain"],
        vec!["man"],
        vec!["metrics"],
        vec!["top"],
        vec!["completions"],
        vec!["node", "keygen"],
        vec!["node", "trust"],
        vec!["daq", "run"],
        vec!["kek"],
    ] {
        let output = barewire(&[&command[..], &["--help"]].concat());
        assert!(output.status.success(), "{command:?}");
        let help = text(&output.stdout);
        let (options, after) = help.split_once("\nExamples").expect("examples");
        let name = format!("  barewire {} ", command.join(" "));
        let examples: Vec<&str> = (after.lines())
            .filter(|line| line.starts_with("  barewire "))
            .collect();
        let own = examples.iter().filter(|line| line.starts_with(&name));
        assert!(own.count() >= 2, "{command:?}: {examples:?}");
        for example in examples.iter().filter(|line| line.starts_with(&name)) {
            // Behind `--` and a pipe stand the options of others.
            let ours = example.split(" -- ").next().unwrap();
            let ours = ours.split(" | ").next().unwrap();
            for word in ours.split(' ').filter(|word| word.starts_with("--")) {
                let exists = options.contains(&format!("{word} "))
                    || options.contains(&format!("{word}\n"))
                    || options.contains(&format!("{word}["));
                assert!(exists, "{word} of {example:?} is no option of {command:?}");
            }
        }
        for line in after.lines() {
            assert!(line.chars().count() <= 90, "{command:?}: {line:?}");
        }
    }
}

#[test]
fn what_is_of_no_use_by_hand_is_neither_listed_nor_suggested() {
    let inner = ["bench-server", "bench-program", "doctor-end"];
    let help = text(&barewire(&["--help"]).stdout);
    for name in inner {
        assert!(!help.contains(name), "{help}");
        let mistyped = [
            &name[..name.len() - 1],
            &name.replace('-', ""),
            &format!("{name}s"),
        ]
        .map(str::to_owned);
        for mistyped in mistyped {
            let output = barewire(&[&mistyped]);
            assert_eq!(output.status.code(), Some(2), "{mistyped}");
            let said = text(&output.stderr);
            assert!(said.contains("unrecognized subcommand"), "{said}");
            let advice = said.replace(&format!("'{mistyped}'"), "");
            assert!(!advice.contains(name), "{said}");
        }
    }
    // What is of use is suggested.
    let said = text(&barewire(&["bensh"]).stderr);
    assert!(said.contains("'bench'"), "{said}");
    // And these still say what they are.
    let output = barewire(&["bench-server"]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("not by hand"), "{said}");
}

/// The sub-commands that a help page lists.
fn subcommands(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let entries = list.lines().take_while(|line| line.starts_with("  "));
    let names = entries.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// The help of a command and of all below it, by the name of its file.
fn help_pages(command: &[String], pages: &mut BTreeMap<String, String>) {
    let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
    arguments.push("--help");
    let output = barewire(&arguments);
    assert!(output.status.success(), "{arguments:?}");
    let help = text(&output.stdout);
    for name in subcommands(&help) {
        help_pages(&[command, &[name]].concat(), pages);
    }
    let file = [&["barewire".to_owned()], command].concat().join("-") + ".txt";
    pages.insert(file, help);
}

/// The help of every command is what its file in `tests/help` says. After a change that is meant:
/// `BAREWIRE_UPDATE_HELP=1 cargo test -p barewire-cli --test help`, and look at the difference.
#[test]
fn the_help_of_every_command_is_as_committed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let mut pages = BTreeMap::new();
    help_pages(&[], &mut pages);
    assert!(pages.len() > 20, "{:?}", pages.keys());
    let files = std::fs::read_dir(&folder).into_iter().flatten();
    let known: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    if std::env::var_os("BAREWIRE_UPDATE_HELP").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for gone in known.iter().filter(|name| !pages.contains_key(*name)) {
            std::fs::remove_file(folder.join(gone)).unwrap();
        }
        for (name, help) in &pages {
            std::fs::write(folder.join(name), help).unwrap();
        }
        return;
    }
    let is_other = |(name, help): &(&String, &String)| {
        std::fs::read_to_string(folder.join(name)).ok().as_ref() != Some(*help)
    };
    let mut other: Vec<&String> = pages.iter().filter(is_other).map(|it| it.0).collect();
    other.extend(known.iter().filter(|name| !pages.contains_key(*name)));
    assert!(
        other.is_empty(),
        "tests/help differs in {other:?}; if that is meant: BAREWIRE_UPDATE_HELP=1 cargo test -p \
         barewire-cli --test help"
    );
}
