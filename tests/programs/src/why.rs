//! What the library says of each connection: whether it was upgraded, and if not, why.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How often the library said what, for the ends of all connections of a scenario. Numbers are left out.
pub type Whys = BTreeMap<String, usize>;

/// What stands in the files of a folder.
pub(crate) fn of_folder(folder: &Path) -> Whys {
    let mut whys = Whys::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        for why in text.lines().filter_map(why_of) {
            *whys.entry(why.to_owned()).or_default() += 1;
        }
    }
    whys
}

/// `barewire: pid 71 fd 5 127.0.0.1:6379 - 127.0.0.1:40022: accelerated, ring 120 B out, 80 B in`
fn why_of(line: &str) -> Option<&str> {
    let why = line.strip_prefix("barewire: pid ")?.split_once(": ")?.1;
    let why = why.split(": ").next()?;
    Some(why.split(", ring ").next().unwrap_or(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let ends = "barewire: pid 71 fd 5 127.0.0.1:6379 - 127.0.0.1:40022: ";
        for (said, why) in [
            ("accelerated, ring 120 B out, 80 B in", "accelerated"),
            (
                "kernel, over before it was worth more: 2 calls, 9 B",
                "kernel, over before it was worth more",
            ),
            (
                "kernel, the other end runs without barewire",
                "kernel, the other end runs without barewire",
            ),
        ] {
            assert_eq!(why_of(&format!("{ends}{said}")), Some(why));
        }
        assert_eq!(
            why_of("barewire: no connection of this program can be upgraded"),
            None
        );
    }
}
