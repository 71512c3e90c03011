//! Hosts and cards of the papers, as parts of plans: tables under `parameters`.

use crate::error::SystemError;

macro_rules! fragment {
    ($name:literal, $file:literal) => {
        (
            $name,
            include_str!(concat!("../../parameters/", $file, ".toml")),
        )
    };
}

/// The hosts first.
pub(crate) const ALL: &[(&str, &str)] = &[
    fragment!("mvme147", "hosts/mvme147"),
    fragment!("rs6000", "hosts/rs6000"),
    fragment!("rs6000-small-cache", "hosts/rs6000-small-cache"),
    fragment!("hp9000-720", "hosts/hp9000-720"),
    fragment!("hp9000-730", "hosts/hp9000-730"),
    fragment!("pc500", "hosts/pc500"),
    fragment!("pc733", "hosts/pc733"),
    fragment!("pc800", "hosts/pc800"),
    fragment!("alpha533", "hosts/alpha533"),
    fragment!("modern-pc", "hosts/modern-pc"),
    fragment!("card-v1s", "cards/v1s"),
    fragment!("card-penn", "cards/penn"),
    fragment!("card-afterburner", "cards/afterburner"),
    fragment!("card-acenic", "cards/acenic"),
    fragment!("card-acenic-jumbo", "cards/acenic-jumbo"),
    fragment!("card-clan", "cards/clan"),
];

/// `parameters` with the values of fragments in place of their own.
///
/// # Errors
///
/// A text that is no TOML, or a name that is none.
pub(crate) fn with(parameters: &str, names: &[&str]) -> Result<String, SystemError> {
    let mut whole: toml::Table = toml::from_str(parameters)?;
    for name in names {
        let found = ALL.iter().find(|(known, _)| known == name);
        let Some((_, text)) = found else {
            return Err(SystemError::Contradiction(format!("no fragment `{name}`")));
        };
        let fragment: toml::Table = toml::from_str(text)?;
        if let Some(toml::Value::Table(changes)) = fragment.get("parameters") {
            put(&mut whole, changes);
        }
    }
    Ok(whole.to_string())
}

pub(crate) fn put(whole: &mut toml::Table, changes: &toml::Table) {
    for (key, value) in changes {
        match (whole.get_mut(key), value) {
            (Some(toml::Value::Table(table)), toml::Value::Table(changes)) => put(table, changes),
            _ => {
                whole.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::System;
    use super::super::parameters::Parameters;
    use super::*;
    use crate::system::System as _;

    #[test]
    fn every_fragment_has_all_of_its_tables_and_no_other_keys() {
        let keys = |table: &toml::Table| -> Vec<String> {
            let mut keys = Vec::new();
            for (key, value) in table {
                match value {
                    toml::Value::Table(table) => {
                        keys.extend(table.keys().map(|inner| format!("{key}.{inner}")));
                    }
                    _ => keys.push(key.clone()),
                }
            }
            keys.sort();
            keys
        };
        let own: toml::Table = toml::from_str(System.parameters()).expect("parameters");
        for (name, text) in ALL {
            let whole = with(System.parameters(), &[name]).expect(name);
            Parameters::parse(&whole).unwrap_or_else(|error| panic!("{name}: {error}"));
            let fragment: toml::Table = toml::from_str(text).expect(name);
            assert_eq!(
                fragment.keys().collect::<Vec<_>>(),
                ["parameters"],
                "{name}"
            );
            let tables = fragment["parameters"].as_table().expect(name);
            for (table, values) in tables {
                let all = own[table].as_table().expect(name);
                let found = values.as_table().expect(name);
                assert_eq!(keys(found), keys(all), "{name}: {table}");
            }
        }
        assert!(with(System.parameters(), &["abacus"]).is_err());
    }

    #[test]
    fn every_value_of_a_host_has_its_source_above() {
        for (name, text) in ALL.iter().filter(|(name, _)| !name.starts_with("card-")) {
            assert!(text.starts_with("# "), "{name}");
            assert!(text.contains("OPEN"), "{name}");
        }
    }
}
