//! Plans that are changed by chance: lines left out, doubled and exchanged, values of other kinds
//! and sizes, bytes of any kind. A failure prints the seed and the text.

mod any_plan;

use std::path::Path;

use barewire_units::Rng;

/// Values that a key may be given in place of its own.
const VALUES: [&str; 20] = [
    "0",
    "-1",
    "1",
    "65535",
    "9223372036854775807",
    "nan",
    "inf",
    "1e300",
    "true",
    "\"\"",
    "\"0 B\"",
    "\"1 B\"",
    "\"16 EiB\"",
    "\"0 us\"",
    "\"1 ps\"",
    "\"1000 h\"",
    "\"1 bit/s\"",
    "\"999 Tbit/s\"",
    "[\"a\", \"a\"]",
    "{ a = 1 }",
];

/// What the fuzz target begins with, too.
fn seeds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/plan");
    let files = std::fs::read_dir(&folder).expect("the corpus");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let texts = paths
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok());
    texts.collect()
}

fn change(lines: &mut Vec<String>, other: &str, rng: &mut Rng) {
    if lines.is_empty() {
        return;
    }
    let at = rng.index(lines.len());
    match rng.below(5) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let lines_there: Vec<&str> = other.lines().collect();
            if let Some(line) = rng.choose(&lines_there) {
                lines.insert(at, (*line).to_owned());
            }
        }
        3 => {
            let key = lines[at].split('=').next().unwrap_or_default();
            let value = rng.choose(&VALUES).copied().unwrap_or_default();
            lines[at] = format!("{key}={value}");
        }
        _ => {
            let mut bytes = std::mem::take(&mut lines[at]).into_bytes();
            let place = rng.index(bytes.len() + 1);
            bytes.insert(place, rng.below(128) as u8);
            lines[at] = String::from_utf8(bytes).expect("ASCII");
        }
    }
}

#[test]
fn a_plan_of_any_kind_is_checked_and_may_run() {
    let seeds = seeds();
    assert!(seeds.len() > 4, "the corpus has few plans");
    let ran = seeds
        .iter()
        .filter(|text| any_plan::run(text.as_bytes()))
        .count();
    // One of them is of another system.
    assert!(ran + 2 >= seeds.len(), "{ran} of {} run", seeds.len());
    for seed in 0..400 {
        let mut rng = Rng::from_seed(seed);
        let mut lines: Vec<String> = {
            let text = &seeds[rng.index(seeds.len())];
            text.lines().map(str::to_owned).collect()
        };
        for _ in 0..1 + rng.below(3) {
            let other = &seeds[rng.index(seeds.len())];
            change(&mut lines, other, &mut rng);
        }
        let text = lines.join("\n");
        println!("seed {seed}:\n{text}\n");
        any_plan::run(text.as_bytes());
    }
}
