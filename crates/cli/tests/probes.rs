//! Probes for tracers (USDT): the notes in what was built are what `docs/reference/probes.md` says.

#[path = "common/mod.rs"]
mod common;
#[path = "common/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../docs/reference/probes.md");

/// Names of probes, and how many arguments each has.
type Probes = BTreeMap<String, usize>;

/// The probes of a provider in a file, as `readelf` tells them. An error says why there is no answer.
fn found(file: &Path, provider: &str) -> Result<Probes, String> {
    let mut readelf = Command::new("readelf");
    readelf.arg("--notes").arg(file).env("LC_ALL", "C");
    let output = match readelf.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err("readelf is not installed".to_owned());
        }
        output => output.expect("it starts"),
    };
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(parse(&said, provider))
}

fn parse(said: &str, provider: &str) -> Probes {
    let (mut probes, mut is_ours, mut name) = (Probes::new(), false, "");
    for line in said.lines().map(str::trim) {
        if let Some(of) = line.strip_prefix("Provider: ") {
            is_ours = of == provider;
        } else if let Some(it) = line.strip_prefix("Name: ") {
            name = it;
        } else if let Some(arguments) = line.strip_prefix("Arguments:").filter(|_| is_ours) {
            let count = arguments.split_whitespace().count();
            // Where a function is inlined twice, its probe is there twice.
            let before = probes.insert(name.to_owned(), count);
            assert!(before.is_none_or(|before| before == count), "{name}");
        }
    }
    probes
}

/// What the page says of a provider: the first column names a probe, the second its arguments.
fn described(provider: &str) -> Probes {
    let heading = format!("## Provider `{provider}`");
    let (_, rest) = PAGE.split_once(&heading).expect("a section");
    let section = rest.split("\n## ").next().expect("text");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let name = cells[1].trim().trim_matches('`');
        (name.to_owned(), cells[2].matches('`').count() / 2)
    })
    .collect()
}

#[test]
fn the_probes_are_those_of_the_page() {
    let tool = common::barewire(&[]);
    let tool = Path::new(tool.get_program());
    for (file, provider) in [(common::library(), "barewire_sockets"), (tool, "barewire")] {
        let described = described(provider);
        assert!(described.len() >= 6, "{described:?}");
        match found(file, provider) {
            Ok(found) => assert_eq!(found, described, "{}", file.display()),
            Err(why) => return skip::skip("the_probes_are_those_of_the_page", &why),
        }
    }
}

#[test]
fn each_probe_has_an_example_that_names_it() {
    for provider in ["barewire_sockets", "barewire"] {
        for name in described(provider).keys() {
            let example = format!(":{provider}:{name} ");
            assert_eq!(PAGE.matches(&example).count(), 1, "{example}");
        }
    }
}

#[test]
fn a_note_of_another_provider_or_with_other_arguments_is_noticed() {
    let said = "
      stapsdt              0x00000040       NT_STAPSDT (SystemTap probe descriptors)
        Provider: barewire
        Name: link_up
        Location: 0x01, Base: 0x02, Semaphore: 0x00
        Arguments: -8@%rax -8@%rcx
      stapsdt              0x00000040       NT_STAPSDT (SystemTap probe descriptors)
        Provider: libc
        Name: longjmp
        Location: 0x01, Base: 0x02, Semaphore: 0x00
        Arguments: 8@%rdi -4@%esi
      stapsdt              0x00000040       NT_STAPSDT (SystemTap probe descriptors)
        Provider: barewire
        Name: sleeps
        Location: 0x01, Base: 0x02, Semaphore: 0x00
        Arguments:";
    let wanted = [("link_up".to_owned(), 2), ("sleeps".to_owned(), 0)];
    assert_eq!(parse(said, "barewire"), Probes::from(wanted));
}
