//! The environment of the program that is run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Sets a variable, in place of an earlier one of the name.
pub fn set(environment: &mut Vec<(OsString, OsString)>, name: &str, value: OsString) {
    environment.retain(|(known, _)| known != name);
    environment.push((name.into(), value));
}

/// Puts the library behind what is preloaded already.
pub fn preload(environment: &mut Vec<(OsString, OsString)>, library: &Path) {
    const NAME: &str = "LD_PRELOAD";
    let before = environment.iter().find(|(name, _)| name == NAME);
    let list = with_earlier_preloads(library, before.map(|(_, value)| value.as_os_str()));
    set(environment, NAME, list);
}

/// The library behind what is preloaded already, as `LD_PRELOAD` takes it: some of that must come first.
pub fn with_earlier_preloads(library: &Path, earlier: Option<&OsStr>) -> OsString {
    let mut list = earlier.map_or(Vec::new(), |value| value.as_bytes().to_vec());
    let library = library.as_os_str().as_bytes();
    let is_break = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
    if !list.split(is_break).any(|item| item == library) {
        if !list.is_empty() {
            list.push(b':');
        }
        list.extend_from_slice(library);
    }
    OsString::from_vec(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preloaded(before: Option<&str>) -> String {
        let mut environment = vec![("A".into(), "b".into())];
        if let Some(before) = before {
            environment.push(("LD_PRELOAD".into(), before.into()));
        }
        preload(&mut environment, Path::new("/l/ours.so"));
        let found: Vec<_> = environment
            .iter()
            .filter(|(name, _)| name == "LD_PRELOAD")
            .collect();
        assert_eq!(found.len(), 1);
        found[0].1.to_str().unwrap().to_owned()
    }

    #[test]
    fn earlier_preloads_are_kept() {
        assert_eq!(preloaded(None), "/l/ours.so");
        assert_eq!(preloaded(Some("")), "/l/ours.so");
        assert_eq!(preloaded(Some("a.so b.so")), "a.so b.so:/l/ours.so");
        assert_eq!(
            preloaded(Some("a.so:/l/ours.so b.so")),
            "a.so:/l/ours.so b.so"
        );
    }
}
