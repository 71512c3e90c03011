//! What in a unit keeps the library from being loaded, or connections from being upgraded.

use std::path::{Path, PathBuf};

use super::unit::{Places, Unit, is_yes, words};

/// What makes `enable` pointless: the service would not start, or not with the library.
pub fn fatal(unit: &Unit, library: &Path, places: &Places) -> Option<String> {
    let hidden = |by: &str| {
        Some(format!(
            "{} has {by}, so it can not see {}: install the library elsewhere (--library PATH)",
            unit.name,
            library.display()
        ))
    };
    if !library.is_absolute() {
        return Some(format!(
            "{}: --library takes a whole path",
            library.display()
        ));
    }
    for folder in ["RootDirectory", "RootImage"] {
        if let Some(value) = unit.value(folder) {
            return hidden(&format!("{folder}={value}"));
        }
    }
    let lies_in = |folders: &[&str]| folders.iter().any(|folder| library.starts_with(folder));
    if lies_in(&["/home", "/root", "/run/user"]) {
        if let Some(value) = unit
            .value("ProtectHome")
            .filter(|value| is_yes(value) || *value == "tmpfs")
        {
            return hidden(&format!("ProtectHome={value}"));
        }
    }
    if lies_in(&["/tmp", "/var/tmp"]) && unit.is_set("PrivateTmp") {
        return hidden("PrivateTmp=yes");
    }
    if !places
        .root
        .join(library.strip_prefix("/").unwrap_or(library))
        .is_file()
    {
        return Some(format!(
            "{} is not in {}: install it there, or say where it is (--library PATH)",
            library.display(),
            places.root.display()
        ));
    }
    let file = environment_files(unit, places).into_iter().find(|file| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines()
            .any(|line| line.trim_start().starts_with("LD_PRELOAD="))
    })?;
    Some(format!(
        "{} sets LD_PRELOAD, which counts more than what `enable` writes: add {} to it there",
        file.display(),
        library.display()
    ))
}

fn environment_files(unit: &Unit, places: &Places) -> Vec<PathBuf> {
    let values = unit.values("EnvironmentFile").into_iter();
    let files = values.map(|value| value.trim_start_matches('-').trim_start_matches('/'));
    files.map(|file| places.root.join(file)).collect()
}

/// What leaves connections with the kernel.
pub fn warnings(unit: &Unit) -> Vec<String> {
    let mut warnings = Vec::new();
    for key in ["PrivateNetwork", "PrivateUsers"] {
        if unit.is_set(key) {
            warnings.push(format!(
                "{} has {key}=yes: none of its connections to other services is upgraded",
                unit.name
            ));
        }
    }
    let missing: Vec<_> = ["AF_UNIX", "AF_NETLINK"]
        .into_iter()
        .filter(|family| !is_allowed(&unit.values("RestrictAddressFamilies"), family))
        .collect();
    if !missing.is_empty() {
        warnings.push(format!(
            "{} may not use {}, so all its connections stay with the kernel; to allow it, add \
             `RestrictAddressFamilies={}` in a drop-in of your own (systemctl edit)",
            unit.name,
            missing.join(" and "),
            missing.join(" ")
        ));
    }
    for (key, least) in [("LimitAS", "infinity"), ("LimitFSIZE", "1M")] {
        if let Some(value) = unit.value(key).filter(|value| !is_enough(value, key)) {
            warnings.push(format!(
                "{} has {key}={value}: below {least} its connections stay with the kernel",
                unit.name
            ));
        }
    }
    warnings
}

/// Whether these lists of address families let a family in: each adds to those before, or takes away from them.
fn is_allowed(lists: &[&str], family: &str) -> bool {
    let mut allowed = None;
    for list in lists {
        let (names, adds) = match list.strip_prefix('~') {
            Some(names) => (names, false),
            None => (*list, true),
        };
        // The first list says what holds for those that are not named.
        let before = *allowed.get_or_insert(!adds);
        let is_named = words(names).iter().any(|name| name == family);
        allowed = Some(if is_named { adds } else { before });
    }
    allowed.unwrap_or(true)
}

fn is_enough(value: &str, key: &str) -> bool {
    // The soft limit is before the colon.
    let soft = value.split(':').next().unwrap_or(value);
    if soft == "infinity" {
        return true;
    }
    let (number, unit) = soft.split_at(
        soft.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(soft.len()),
    );
    let factor = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => 1_u64 << 40,
    };
    let bytes = number
        .parse::<u64>()
        .unwrap_or(u64::MAX)
        .saturating_mul(factor);
    key == "LimitFSIZE" && bytes >= 1 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_families_add_up() {
        assert!(is_allowed(&[], "AF_UNIX"));
        assert!(!is_allowed(&["AF_INET AF_INET6"], "AF_UNIX"));
        assert!(is_allowed(&["AF_INET", "AF_UNIX"], "AF_UNIX"));
        assert!(!is_allowed(&["~AF_NETLINK AF_PACKET"], "AF_NETLINK"));
        assert!(is_allowed(&["~AF_PACKET"], "AF_NETLINK"));
        assert!(!is_allowed(&["AF_UNIX AF_INET", "~AF_UNIX"], "AF_UNIX"));
    }

    #[test]
    fn limits_are_compared() {
        assert!(is_enough("infinity", "LimitAS") && !is_enough("64G", "LimitAS"));
        assert!(is_enough("1M", "LimitFSIZE") && is_enough("2000000:infinity", "LimitFSIZE"));
        assert!(!is_enough("1000K", "LimitFSIZE") && !is_enough("0", "LimitFSIZE"));
    }
}
